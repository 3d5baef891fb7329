package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	bridgeRounds = 25
	bridgeWarm   = 5 // of the rounds; the first one creates the bridge
	bridgeTarget = 60 * time.Millisecond
	bridgeClean  = 30 * time.Second // limit of the removal of a network
	bridgeEnd    = 30 * time.Second
)

// bridgeTimes are the times from the submission to the first instruction of tasks.
type bridgeTimes struct{ With, Without []time.Duration }

// bridgeCost submits tasks with and without a network on the bridge in turn. The agent runs in network and mount
// namespaces of this figure, so that the machine's own rules never change.
func bridgeCost(ctx context.Context, b *bench) (string, bool, error) {
	self, err := os.Executable()
	if err != nil {
		return "", false, err
	}
	cmd := exec.CommandContext(ctx, self, "bridged", b.nomad, b.dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends the agent
	cmd.WaitDelay = bridgeEnd
	text, err := cmd.Output()
	if err != nil {
		return "", false, fmt.Errorf("measure in a network namespace: %w", err)
	}
	var t bridgeTimes
	if err := json.Unmarshal(text, &t); err != nil || len(t.With) == 0 || len(t.Without) == 0 {
		return "", false, fmt.Errorf("the measurement printed %q: %w", text, err)
	}
	with, without := median(t.With), median(t.Without)
	return fmt.Sprintf("p50 %.0f ms over %.1f ms (n=%d, one port, IPv4)", ms(with-without), ms(without), len(t.With)),
		with-without <= bridgeTarget, nil
}

// bridged measures in the namespaces of this process, and prints the times.
func bridged(args []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) != 2 {
		return errors.New("usage: bridged PROGRAM DIRECTORY")
	}
	if err := privateNetwork(ctx); err != nil {
		return err
	}
	b := &bench{nomad: args[0], dir: args[1]}
	a, err := b.agentWith(ctx, "client {\n  network_interface = \"lo\"\n}\n")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave(ctx, a)) }()
	var t bridgeTimes
	for i := range bridgeRounds {
		for _, networks := range [][]*api.NetworkResource{nil, {{Mode: "bridge", DynamicPorts: []api.Port{{Label: "http", To: 80}}}}} {
			d, err := firstOnNetwork(ctx, a, fmt.Sprintf("bridge-%d-%d", i, len(networks)), networks)
			switch {
			case err != nil:
				return err
			case i < bridgeWarm:
			case len(networks) == 0:
				t.Without = append(t.Without, d)
			default:
				t.With = append(t.With, d)
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// firstOnNetwork submits a task that prints the time. It returns when the network has been removed, whose plugins would
// slow the next task down.
func firstOnNetwork(ctx context.Context, a *cluster.Agent, id string, networks []*api.NetworkResource) (time.Duration, error) {
	job := batch(id, 1, "exec2", map[string]any{"command": "/bin/date", "args": []string{"+%s%N"}})
	job.TaskGroups[0].Tasks[0].Resources.CPU = nil
	job.TaskGroups[0].Networks = networks
	took, err := runFirst(ctx, a, job)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, bridgeClean)
	defer cancel()
	for {
		records, err := filepath.Glob(filepath.Join(a.Dir, "data", "client", "network", "*.json"))
		if err == nil && len(records) == 0 {
			_, err = repeat(ctx, 1, betweenSubmits, func(int) (time.Duration, error) { return 0, nil })
			return took, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the network of job %s is not removed: %w", id, ctx.Err())
		case <-time.After(askAgain):
		}
	}
}

// privateNetwork prepares the namespaces of this process: the loopback interface is up, and the plugins find no
// addresses of the machine's own networks.
func privateNetwork(ctx context.Context) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	const leases = "/run/cni"
	if err := os.MkdirAll(leases, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", leases, "tmpfs", 0, "size=16m"); err != nil {
		return fmt.Errorf("mount an empty %s: %w", leases, err)
	}
	if out, err := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("set the loopback interface up: %w: %s", err, out)
	}
	return nil
}

// agentWith starts an agent that is server and client, with a configuration. Its data is in data, below its directory.
func (b *bench) agentWith(ctx context.Context, config string) (*cluster.Agent, error) {
	dir, err := os.MkdirTemp(b.dir, "agent-")
	if err != nil {
		return nil, err
	}
	cfg := filepath.Join(dir, "bench.hcl")
	if err := errors.Join(os.Chmod(dir, 0o711), os.WriteFile(cfg, []byte(config), 0o600)); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return cluster.Start(ctx, cluster.Options{Bin: b.nomad, Dir: dir, Log: log, Args: []string{"-server", "-client", "-bootstrap-expect=1",
		"-bind=127.0.0.1", "-log-level=WARN", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
}
