#!/bin/bash
# Ray on the nodes of a Slurm job: sbatch examples/cluster/slurm.sh
# ~/orbitcc-venv and the working directory are on storage that all nodes share.
#SBATCH --job-name=orbitcc
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --requeue

set -euo pipefail
source ~/orbitcc-venv/bin/activate

# Another user's Ray on a node must not be found, nor find this one.
port=$((20000 + SLURM_JOB_ID % 20000))
export RAY_TMPDIR=/tmp/ray-$SLURM_JOB_ID
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}

srun --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --node-ip-address="$head" --port="$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20
if ((${#nodes[@]} > 1)); then
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --exclude="$head" \
        ray start --address="$head:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
    sleep 20
fi

orbitcc cluster check "$head:$port"
# --resume: a job that was requeued continues.
orbitcc reproduce leo --profile full --ray "$head:$port" --out results/leo --resume
