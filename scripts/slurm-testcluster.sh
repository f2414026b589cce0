#!/usr/bin/env bash
# A Slurm cluster of one machine, for tests: munged, slurmctld and slurmd in a folder of their own, without systemd and without
# touching a Slurm installation that may be there. Processes are tracked by their parents, so no cgroups are needed.
#
#   scripts/slurm-testcluster.sh install      Debian and Ubuntu: apt-get install slurm-wlm munge (as root)
#   scripts/slurm-testcluster.sh start DIR    starts the cluster and prints: export SLURM_CONF=DIR/slurm.conf
#   scripts/slurm-testcluster.sh stop DIR     ends its jobs and its processes; the folder with the logs stays
#
# SLURM_TEST_CPUS is the number of processors that a node is said to have; all of them by default. With SLURM_TEST_NODES=2
# the machine is two nodes, under its own name and as localhost.
set -euo pipefail

die() { echo "slurm-testcluster: $*" >&2; exit 1; }

find_program() { # daemons lie in sbin, which is not on everybody's path
  PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin command -v "$1" || die "no $1; run '$0 install', or install slurm-wlm and munge"
}

free_port() { # a port nobody listens on, tried from the given one
  local p=$1
  while (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; do p=$((p + 1)); done
  echo "$p"
}

case ${1:-} in
install)
  command -v apt-get >/dev/null || die "no apt-get; install Slurm and munge with the system's package manager"
  apt-get install -y --no-install-recommends slurm-wlm munge
  ;;
start)
  dir=${2:?which folder?}
  mkdir -p "$dir"/{state,spool,log,run}
  dir=$(cd "$dir" && pwd)
  munged=$(find_program munged) slurmctld=$(find_program slurmctld) slurmd=$(find_program slurmd)
  chmod 755 "$dir" "$dir/run"
  chmod 700 "$dir/log"
  host=$(hostname -s)
  ctl=$(free_port $((20000 + RANDOM % 10000)))
  node=$(free_port $((ctl + 1)))
  nodes=$host ports=$node
  if [ "${SLURM_TEST_NODES:-1}" = 2 ]; then
    nodes=$host,localhost ports=$node,$(free_port $((node + 1)))
  fi
  dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 2>/dev/null
  chmod 400 "$dir/munge.key"
  "$munged" --force --key-file="$dir/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/run/munged.seed"
  cat >"$dir/slurm.conf" <<CONF
ClusterName=vsetrain
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$ctl
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=100000,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
JobRequeue=1
KillWait=2
InactiveLimit=0
MinJobAge=300
NodeName=$nodes NodeHostname=$nodes NodeAddr=127.0.0.1 Port=$ports CPUs=${SLURM_TEST_CPUS:-$(nproc)} State=UNKNOWN
PartitionName=test Nodes=$nodes Default=YES MaxTime=60 State=UP
CONF
  export SLURM_CONF="$dir/slurm.conf"
  "$slurmctld" -c
  for name in ${nodes//,/ }; do
    mkdir "$dir/spool/$name"
    "$slurmd" -N "$name"
  done
  for _ in $(seq 100); do
    [ "$(sinfo -h -N -o %T 2>/dev/null | sort -u)" = idle ] && { echo "export SLURM_CONF=$dir/slurm.conf"; exit 0; }
    sleep 0.2
  done
  tail -n 20 "$dir"/log/slurm*.log >&2
  die "the nodes did not come up in 20 seconds"
  ;;
stop)
  dir=$(cd "${2:?which folder?}" && pwd)
  export SLURM_CONF="$dir/slurm.conf"
  timeout 5 scancel -u "$(id -un)" 2>/dev/null || true
  for file in "$dir"/run/*.pid; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
  done
  ;;
*)
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
