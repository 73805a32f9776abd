// A click on a column's head sorts its table by that column; another one turns the order round.
for (const head of document.querySelectorAll("table.sortable th[scope=col]")) {
  head.tabIndex = 0;
  const sort = () => {
    const table = head.closest("table"), body = table.tBodies[0];
    const column = [...head.parentNode.children].indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.children[column], number = parseFloat(cell.dataset.value ?? "");
      return Number.isNaN(number) ? cell.textContent.trim() : number;
    };
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return down ? -less : less;
    };
    body.append(...[...body.rows].sort(order));
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => {
    if (event.key === "Enter") sort();
  });
}
