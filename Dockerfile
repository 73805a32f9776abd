# The command `orbitcc` in a slim image: a wheel is built in the first stage, installed in the second (docs/packaging.md).
ARG PYTHON=3.12
ARG RUST=1.88

FROM rust:${RUST}-slim-bookworm AS rust

FROM python:${PYTHON}-slim-bookworm AS build
ARG PIP_INDEX_URL
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:$PATH
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim-bookworm
ARG PIP_INDEX_URL
ARG EXTRAS=""
COPY --from=build /wheels /wheels
RUN wheel="$(ls /wheels/orbitcc-*.whl)" \
    && pip install --no-cache-dir "${wheel}${EXTRAS:+[$EXTRAS]}" \
    && rm -r /wheels
WORKDIR /home/orbitcc
ENTRYPOINT ["orbitcc"]
CMD ["--help"]
