#!/usr/bin/env bash
# A real Slurm cluster of virtual nodes on one Linux host, for tests.
#
#   testcluster.sh start DIR [--nodes N] [--cpus C] [--acct dbd|none] [--net host|veth] [--rate 1gbit]
#   testcluster.sh stop  DIR
#   eval "$(testcluster.sh env DIR)"        # sets SLURM_CONF for sbatch, srun, sacct, ...
#   testcluster.sh kill-node DIR n2         # as if the node lost power
#
# Needs root, and the Debian packages munge slurmctld slurmd slurm-client
# (with --acct dbd also slurmdbd mariadb-server; with --net veth also iproute2). No systemd, no cgroups.
#
# All state lies in DIR, /etc is not written; only Unix sockets and the nodes' spool lie in DIR/short, a link to a
# folder of a short name under /tmp, because a socket's path may have 108 characters at most and jobs of a cluster in a
# deep folder would fail to launch. DIR/pids holds one line "name pid start-time" for every process that
# was started here, and only those are ever ended: a later process that got the same number has another start time.
# Each node is a slurmd in its own PID, UTS and mount namespace (hostname n1, n2, ...; an /etc/hosts that resolves
# them), so that killing the namespace's parent ends the node with every process of its jobs, also those that left
# their session. With --net veth a node has its own network namespace on a bridge as well, shaped with tbf to --rate
# in both directions. Daemons inherit the scheduling policy of whoever calls start.
set -euo pipefail

die() { echo "testcluster: $*" >&2; exit 1; }
now_ms() { echo $(( $(date +%s%N) / 1000000 )); }
wait_for() { # wait_for SECONDS WHAT COMMAND...
  local limit=$1 what=$2 t0; shift 2; t0=$(now_ms)
  until "$@" >/dev/null 2>&1; do
    all_alive && (( $(now_ms) - t0 < limit * 1000 )) || { echo "testcluster: no $what within ${limit}s; logs: $DIR/log" >&2; return 1; }
    sleep 0.05
  done
}
spawn() { # spawn NAME COMMAND... : start in its own session, keep "name pid starttime"
  local name=$1 pid; shift
  setsid "$@" </dev/null >>"$DIR/log/$name.out" 2>&1 &
  pid=$!
  disown
  echo "$name $pid $(cut -d' ' -f22 /proc/$pid/stat)" >>"$DIR/pids"
}
alive() { # alive PID STARTTIME : the same process, not a later one with its number
  [[ -r /proc/$1/stat && $(cut -d' ' -f22 "/proc/$1/stat" 2>/dev/null) == "$2" ]] &&
    [[ $(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null) != Z ]]
}
all_alive() { # a daemon that died makes start fail at once
  local name pid st
  while read -r name pid st; do alive "$pid" "$st" || { echo "testcluster: $name ended" >&2; return 1; }; done <"$DIR/pids"
}
ports_free() { local p; for p in "$@"; do ! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || return 1; done; }
port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
nodes_idle() { [[ $(sinfo -h -r -N -p main -t idle -o %N | wc -l) -eq $NODES ]]; }
acct_ok() { [[ -n $(sacctmgr -n -P show cluster format=cluster,controlport | awk -F'|' '$2 > 0') ]]; }
my_sql() { mariadb-admin --no-defaults -S "$SHORT/mysql.sock" -u root ping; }

write_conf() {
  local host; host=$(hostname -s)
  {
    cat <<CONF
ClusterName=testcluster
SlurmctldHost=$host($CTL_ADDR)
SlurmctldPort=$BASE
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
# cred_expire is also how long a requeued job must wait (default 120 s, and values under 5 are ignored)
AuthInfo=socket=$SHORT/munge.sock,cred_expire=5
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$SHORT/%n
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmdPidFile=$DIR/slurmd-%n.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
# nodes may claim more CPUs than the host has
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=10
KillWait=2
MinJobAge=600
# job ids must not repeat those of an earlier cluster: submitit would read its old result files
FirstJobId=$(( $(date +%s) % 60000000 + 1 ))
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# also send the --signal of a job (submitit: SIGUSR2) when it is preempted; needs GraceTime
SlurmctldParameters=preempt_send_user_signal
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1
CONF
    if [[ $ACCT == dbd ]]; then
      printf '%s\n' AccountingStorageType=accounting_storage/slurmdbd \
        AccountingStorageHost=127.0.0.1 AccountingStoragePort=$((BASE + 1)) \
        "AccountingStoragePass=$SHORT/munge.sock" # not a password: the munge socket for slurmdbd
    else
      echo AccountingStorageType=accounting_storage/none
    fi
    for ((i = 1; i <= NODES; i++)); do
      echo "NodeName=n$i NodeHostname=n$i NodeAddr=$(node_addr $i) Port=$((BASE + 10 + i)) CPUs=$CPUS RealMemory=2000 State=UNKNOWN"
    done
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=10 State=UP"
    echo "PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP"
  } >"$DIR/slurm.conf"
  { echo "127.0.0.1 localhost"; echo "$CTL_ADDR $host"
    for ((i = 1; i <= NODES; i++)); do echo "$(node_addr $i) n$i"; done; } >"$DIR/hosts"
}
node_addr() { if [[ $NET == veth ]]; then echo "10.213.$SUBNET.$((10 + $1))"; else echo 127.0.0.1; fi; }

net_up() { # bridge on the host, a veth pair and a network namespace for each node
  local i ns
  ip link add "$BR" type bridge
  echo "$BR" >"$DIR/net"
  ip addr add "$CTL_ADDR/24" dev "$BR"; ip link set "$BR" up
  for ((i = 1; i <= NODES; i++)); do
    ns=$BR-n$i
    ip netns add "$ns"; echo "$ns" >>"$DIR/net"
    ip link add "$ns" type veth peer name eth0 netns "$ns"
    ip link set "$ns" master "$BR" up
    ip -n "$ns" addr add "$(node_addr $i)/24" dev eth0
    ip -n "$ns" link set lo up; ip -n "$ns" link set eth0 up
    if [[ -n $RATE ]]; then
      tc qdisc add dev "$ns" root tbf rate "$RATE" burst 128kb latency 20ms        # to the node
      tc -n "$ns" qdisc add dev eth0 root tbf rate "$RATE" burst 128kb latency 20ms # from the node
    fi
  done
}
net_down() {
  [[ -r $DIR/net ]] || return 0
  local name first=1
  while read -r name; do
    if ((first)); then ip link del "$name" 2>/dev/null || true; first=0
    else ip link del "$name" 2>/dev/null || true; ip netns del "$name" 2>/dev/null || true; fi
  done <"$DIR/net"
  rm -f "$DIR/net"
}

start_node() { # bash is the namespace's first process, so that orphans of jobs are reaped
  local n=n$1 enter=()
  [[ $NET == veth ]] && enter=(nsenter "--net=/run/netns/$BR-$n")
  spawn "slurmd-$n" "${enter[@]}" unshare --uts --mount --pid --fork --kill-child --mount-proc \
    bash -c 'hostname "$1"; mount --bind "$2/hosts" /etc/hosts; mkdir -p "$3/$1"
      slurmd -D -N "$1" -f "$2/slurm.conf" & wait $!' node "$n" "$DIR" "$SHORT"
}

start() {
  NODES=4 CPUS=2 ACCT=none NET=host RATE=
  while (($#)); do case $1 in
    --nodes) NODES=$2 ;; --cpus) CPUS=$2 ;; --acct) ACCT=$2 ;; --net) NET=$2 ;; --rate) RATE=$2 ;;
    *) die "unknown option $1" ;; esac; shift 2; done
  ((EUID == 0)) || die "needs root"
  [[ ! -e $DIR/pids ]] || die "$DIR is in use: run stop first"
  rm -rf "$DIR/state" "$DIR/log"
  mkdir -p "$DIR"/{state,log}; chmod 755 "$DIR"
  SHORT=$(mktemp -d /tmp/odin-XXXXXX); chmod 755 "$SHORT"
  ln -sfn "$SHORT" "$DIR/short"
  # a free block of ports (16700, 16800, ...)
  local b; BASE=
  for b in $(seq 16700 100 19700); do
    if ports_free $b $((b + 1)) $(seq $((b + 11)) $((b + 10 + NODES))); then BASE=$b; break; fi
  done
  [[ -n $BASE ]] || die "no free ports"
  SUBNET=$(((BASE - 16700) / 100)); BR=otc$SUBNET
  CTL_ADDR=127.0.0.1; [[ $NET == veth ]] && CTL_ADDR=10.213.$SUBNET.1
  export SLURM_CONF=$DIR/slurm.conf
  trap 'code=$?; if ((code)); then echo "testcluster: start failed" >&2; tail -n 5 "$DIR"/log/*.log >&2 || true; stop; fi' EXIT
  : >"$DIR/pids"
  [[ $NET == veth ]] && net_up
  write_conf

  [[ -s $DIR/munge.key ]] || (umask 077; head -c 128 /dev/urandom >"$DIR/munge.key")
  spawn munged munged --foreground --force --key-file="$DIR/munge.key" --socket="$SHORT/munge.sock" \
    --pid-file="$DIR/munged.pid" --log-file="$DIR/log/munged.log" --seed-file="$DIR/munge.seed"
  wait_for 5 munged munge -n -S "$SHORT/munge.sock"

  if [[ $ACCT == dbd ]]; then
    mkdir -p "$DIR/db"
    [[ -d $DIR/db/data/mysql ]] || mariadb-install-db --no-defaults --user=root --skip-test-db --auth-root-authentication-method=normal \
      --innodb-log-file-size=4M --datadir="$DIR/db/data" >"$DIR/log/install-db.out" 2>&1
    spawn mariadbd mariadbd --no-defaults --user=root --datadir="$DIR/db/data" --socket="$SHORT/mysql.sock" \
      --pid-file="$DIR/db/mysql.pid" --skip-networking --innodb-buffer-pool-size=64M --innodb-log-file-size=4M \
      --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 --log-error="$DIR/log/mariadbd.log"
    (umask 077; cat >"$DIR/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$SHORT/munge.sock
DbdHost=$(hostname -s)
DbdAddr=127.0.0.1
DbdPort=$((BASE + 1))
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
CommitDelay=0
LogFile=$DIR/log/slurmdbd.log
PidFile=$DIR/slurmdbd.pid
CONF
    )
    wait_for 20 mariadbd my_sql
    MYSQL_UNIX_PORT=$SHORT/mysql.sock spawn slurmdbd slurmdbd -D
    wait_for 30 slurmdbd port_open $((BASE + 1))
    sacctmgr -i add cluster testcluster >>"$DIR/log/sacctmgr.out" 2>&1 || true
  fi
  spawn slurmctld slurmctld -D -i -f "$DIR/slurm.conf"
  local i; for ((i = 1; i <= NODES; i++)); do start_node $i; done
  wait_for 20 "slurmctld" scontrol ping
  wait_for 20 "idle nodes" nodes_idle
  [[ $ACCT == dbd ]] && wait_for 20 "accounting" acct_ok
  trap - EXIT
}

stop() {
  [[ -e $DIR/pids ]] || return 0
  export SLURM_CONF=$DIR/slurm.conf
  local name pid st t0 left
  timeout 5 scancel --full --signal=KILL --state=RUNNING -u root >/dev/null 2>&1 || true
  # nodes first (with them every process of their jobs), then the daemons, newest first
  while read -r name pid st; do
    alive "$pid" "$st" || continue
    case $name in slurmd-*) kill -KILL "$pid" ;; *) kill -TERM "$pid" ;; esac 2>/dev/null || true
    t0=$(now_ms)
    while alive "$pid" "$st"; do
      if (($(now_ms) - t0 > 5000)); then kill -KILL "$pid" 2>/dev/null || true; sleep 0.2; break; fi
      sleep 0.02
    done
  done < <(tac "$DIR/pids")
  net_down
  # the link lies in a folder of the user's: only what start has made is deleted
  if [[ -L $DIR/short ]]; then
    local made; made=$(readlink "$DIR/short")
    if [[ $made =~ ^/tmp/odin-[A-Za-z0-9]{6}$ ]]; then rm -rf "$made"; else echo "left alone: $made" >&2; fi
  fi
  rm -f "$DIR/pids" "$DIR/short"
}

(($# >= 2)) || die "usage: testcluster.sh start|stop|env|kill-node DIR ..."
cmd=$1; mkdir -p "$2"; DIR=$(cd "$2" && pwd); shift 2
case $cmd in
  start) start "$@" ;;
  stop) stop ;;
  env) echo "export SLURM_CONF='$DIR/slurm.conf'" ;;
  kill-node) while read -r name pid st; do
      if [[ $name == "slurmd-$1" ]] && alive "$pid" "$st"; then kill -KILL "$pid"; fi; done <"$DIR/pids" ;;
  *) die "unknown command $cmd" ;;
esac
