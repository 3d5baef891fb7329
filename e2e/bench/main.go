// Command bench measures the performance figures of the project with real agents of the given
// program. It prints one table: figure, target, measured value. Every load is bounded in count and
// time, and all started processes are ended.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/companion"
)

// figure is one measurement with a target.
type figure struct {
	name, target string
	measure      func(ctx context.Context, b *bench) (string, bool, error)
}

var figures = []figure{
	{"this machine, before", "none: for reading the others", machine},
	{"start to node ready", "≤ 0.5 s", startToReady},
	{"agent idle PSS", "≤ 45 MiB", idleMemory},
	{"submit to first instruction of an exec2 task, p50", "≤ 18 ms", submitToStart},
	{"200 batch tasks at once, all finished", "≥ 60 tasks/s", batchRate},
	{"exec2 over raw_exec, start of /bin/true", "p50 ≤ 5 ms", sandboxCost},
	{"exec2 tasks started and stopped", "nothing left behind", churn},
	{"helper memory per running task", "≤ 0.5 MiB, no helper process but an init of ≤ 100 KiB", helperMemory},
	{"artifact of 1 MiB over a bare download", "p50 ≤ 40 ms", artifactCost},
	{"100 allocations with one artifact of 50 MiB", "1 download, ≤ 2 s over tasks without", cachedArtifacts},
	{"100 tasks with a static template", "≤ 30 ms each over a task without, no process", staticTemplates},
	{"100 tasks that watch a variable, change to file", "p50 ≤ 150 ms, p99 ≤ 1 s, ≤ 15 MiB a process", watchedVariable},
	{"2,000 allocations of a mock job placed", "≥ 3,000/s", placementRate},
	{"binary", "≤ 90 MiB", binarySize},
	{"leader killed to next write acknowledged", "p50 ≤ 2 s, p99 ≤ 4 s", failover},
	{"job registered to evaluated, 3 servers, p50", "≤ 20 ms", evaluated},
	{"job registrations by RPC, 3 servers, 16 writers", "≥ 1,000/s; share of a raw log", rpcRegistrations},
	{"job registrations by HTTP, 3 servers, 16 writers", "≥ 1,000/s; share of a raw log", httpRegistrations},
	{"mixed load: jobs run while others read, one agent", "none: for profiles", mixedLoad},
	{"5,000 nodes through changes of leaders", "no node falsely down", heartbeats},
	{"mint a token of a task", "≤ 1.2 × bare Ed25519 + 15 µs", mintCost},
	{"verify a token seen before, state included", "≤ 2 µs", verifyCost},
	{"identities signed through the RPC, 3 servers", "≥ 5,000/s", signingRate},
	{"allocation stopped to its token refused everywhere", "p99 ≤ 1 s", tokensEnd},
	{"100 MB snapshot restored on 3 servers", "≤ 10 s", restoreSnapshot},
	{"an event of the audit log", "≤ 25 µs", auditCost},
	{"authorize a request whose token was seen before", "≤ 5 µs", authorizeCost},
	{"placements/s with 100 to 10,000 nodes, one server", "≥ 3,750/s at 5,000; cost at 10,000 ≤ 2 × that at 100, ranked ≤ 4 ×", placements},
	{"500 of 5,000 nodes lost, 5,000 allocations replaced", "≤ 10 s", losses},
	{"100 of 200 nodes drained", "≤ 30 s, never below count − max_parallel", drains},
	{"1,000 periodic jobs launched", "≤ 5 s, none twice", launches},
	{"1,000 sandboxed tasks, and the agent killed", "running ≤ 25 s, agent and supervisor ≤ 220 MiB, reattached ≤ 4 s", manyTasks},
	{"lists with 10,000 allocations", "≥ 2.5 × the program of -baseline (6fe646be)", listRates},
	{"10,000 variables listed by prefix, with access control", "≤ 50 ms", listVariables},
	{"log pump over cat", "≥ 80 %", pumpRate},
	{"1,000 services of one client registered and seen", "≤ 5 s", servicesSeen},
	{"bridge set-up over no bridge", "p50 ≤ 60 ms", bridgeCost},
	{"SVID to a task", "p50 ≤ 5 ms", svidCost},
	{"this machine, after", "none", machine},
}

// bench holds what all measurements share.
type bench struct {
	nomad    string
	dir      string
	profiles string // directory of CPU profiles; empty for none
	baseline string // an older program to compare with; empty for none
	tasks    int    // of the figure of 1,000 sandboxed tasks
	results  string // a file for the results; empty for none
}

// limit bounds the complete run.
const limit = 20 * time.Minute

func main() {
	companion.Main()
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	nomad := flag.String("nomad", "bin/nomad", "the program to measure")
	only := flag.String("only", "", "a regular expression: measure the figures whose names match")
	dir := flag.String("dir", "", "where the data goes: a directory on a real disk (default: the one of temporary files)")
	profiles := flag.String("profiles", "", "a directory for CPU profiles of the agents during registrations, the "+
		"mixed load and the restore of a snapshot (go tool pprof)")
	baseline := flag.String("baseline", "", "an older program: the figures of lists are compared with it")
	tasks := flag.Int("tasks", 1000, "the number of sandboxed tasks in the figure of 1,000: fewer for a busy machine, a multiple of 10")
	results := flag.String("tsv", "", "a file for the results, with the date and the machine (make plots makes a page of it)")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -only:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b := bench{
		nomad:    *nomad,
		dir:      *dir,
		profiles: *profiles,
		baseline: *baseline,
		tasks:    *tasks,
		results:  *results,
	}
	if err := run(ctx, b, chosen); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, b bench, chosen *regexp.Regexp) error {
	bin, err := filepath.Abs(b.nomad)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir, "nomad-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	b.nomad, b.dir = bin, dir
	rows := []string{"Figure|Target|Measured|Result"}
	missed := 0
	report, err := newReport(ctx, b.nomad)
	if err != nil {
		return err
	}
	for _, f := range figures {
		if !chosen.MatchString(f.name) {
			continue
		}
		if os.Geteuid() != 0 {
			fmt.Fprintln(os.Stderr, "bench: not root: exec2 tasks can't be measured; run as root")
			return nil
		}
		got, ok, err := f.measure(ctx, &b)
		mark := reached
		switch {
		case err != nil:
			got, mark = "failed: "+err.Error(), missing
			missed++
		case !ok:
			mark = missing
			missed++
		}
		report.results = append(report.results, result{f.name, f.target, got, mark})
		rows = append(rows, term.Row(f.name, f.target, got, mark))
		fmt.Fprintf(os.Stderr, "%s: %s\n", f.name, got)
	}
	fmt.Println(term.Table(rows))
	if b.results != "" {
		if err := report.write(b.results); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d figures missed", missed, len(report.results))
	}
	return nil
}

// agent starts a separate dev agent for one measurement.
func (b *bench) agent(ctx context.Context) (*cluster.Agent, error) {
	dir, err := os.MkdirTemp(b.dir, "agent-")
	if err != nil {
		return nil, err
	}
	// Tasks run as other users, and their directories are below this one.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return cluster.Start(ctx, cluster.Options{Bin: b.nomad, Dir: dir, Args: []string{"-dev", "-log-level=WARN"},
		Env: []string{"TMPDIR=" + dir}, Log: log})
}
