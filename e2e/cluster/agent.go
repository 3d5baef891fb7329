// Package cluster starts real agents as separate processes, for tests, benchmarks and scripts. Each
// agent has its own directory and its own ports on the loopback address. It leaves nothing behind
// when it is stopped.
//
//	Start ──▶ healthy, node ready ──Stop──▶ gone, tasks as the agent leaves them
//	                              └─Kill──▶ gone (SIGKILL), tasks run on ──Start──▶ …
//
// An Agent has one goroutine, which waits for the process.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Options is the configuration of an agent.
type Options struct {
	Bin  string   // the program; its first argument is "agent"
	Dir  string   // its files; kept for the next Start
	Args []string // flags, such as -dev; -data-dir is added unless -dev is among them
	Env  []string
	Log  io.Writer // its output
	// HTTP, RPC and Serf are ports; zero selects free ones.
	HTTP, RPC, Serf int
	// TLS configures callers if the HTTP API uses TLS.
	TLS *api.TLSConfig
	// Secret enables ACLs: it is the secret of the bootstrap token, a UUID. Start creates the token
	// if it does not exist, and Client uses it.
	Secret string
	// Lean leaves out Java, QEMU and the versions of CNI plugins. Their detection runs some twenty programs, which
	// takes half of the CPU time of a start. A configuration in Args can enable them again.
	Lean bool
	// User is the user of the agent, nil for the user of the caller.
	User *syscall.Credential
}

// Agent is a running agent.
type Agent struct {
	Options
	Client *api.Client

	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // its exit status, valid after done
}

// readyLimit bounds the time until an agent is ready.
const readyLimit = time.Minute

// silent is the health description of a driver that has not reported its health for seconds. Such a
// driver may still become healthy.
const silent = "the driver did not send a fingerprint in time"

// poll is the polling interval while an agent starts.
const poll = 20 * time.Millisecond

// leanConfig is the configuration of Options.Lean.
const leanConfig = `client {
  options = {
    "driver.denylist"      = "java,qemu"
    "fingerprint.denylist" = "plugins_cni"
  }
}
`

// Start starts an agent. It returns when the agent is healthy and its node, if any, is ready with
// its drivers.
func Start(ctx context.Context, o Options) (*Agent, error) {
	if err := o.fillPorts(); err != nil {
		return nil, err
	}
	a := &Agent{Options: o, done: make(chan struct{})}
	cfg, err := a.writeConfig()
	if err != nil {
		return nil, err
	}
	if a.Client, err = api.NewClient(&api.Config{Address: a.Address(), TLSConfig: o.TLS, SecretID: o.Secret}); err != nil {
		return nil, err
	}
	a.cmd = exec.Command(o.Bin, append([]string{"agent", "-config=" + cfg}, o.Args...)...)
	a.cmd.Env = append(os.Environ(), o.Env...)
	a.cmd.Stdout, a.cmd.Stderr = o.Log, o.Log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: o.User}
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	go func() {
		a.err = a.cmd.Wait()
		close(a.done)
	}()
	if err := a.waitReady(ctx); err != nil {
		return nil, errors.Join(err, a.Kill())
	}
	return a, nil
}

// fillPorts selects the ports that are not set. The agent keeps them when it is restarted.
func (o *Options) fillPorts() error {
	for _, p := range []*int{&o.HTTP, &o.RPC, &o.Serf} {
		if *p != 0 {
			continue
		}
		port, err := takePort()
		if err != nil {
			return err
		}
		*p = port
	}
	return nil
}

func (a *Agent) writeConfig() (string, error) {
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return "", err
	}
	name := filepath.Join(a.Dir, "ports.hcl")
	text := fmt.Sprintf("ports {\n  http = %d\n  rpc  = %d\n  serf = %d\n}\n", a.HTTP, a.RPC, a.Serf)
	if a.Lean {
		text += leanConfig
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil || a.User == nil {
		return name, err
	}
	for _, at := range []string{a.Dir, name} {
		if err := os.Chown(at, int(a.User.Uid), int(a.User.Gid)); err != nil {
			return name, err
		}
	}
	return name, nil
}

// Address returns the URL of the agent's HTTP API.
func (a *Agent) Address() string {
	scheme := "http"
	if a.TLS != nil {
		scheme = "https"
	}
	return scheme + "://127.0.0.1:" + strconv.Itoa(a.HTTP)
}

// Pid returns the process ID of the agent.
func (a *Agent) Pid() int { return a.cmd.Process.Pid }

// Ended reports whether the agent has ended.
func (a *Agent) Ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// waitReady polls the agent until it is ready or has ended.
func (a *Agent) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := a.isReady()
		if err == nil {
			return nil
		}
		select {
		case <-a.done:
			return fmt.Errorf("the agent ended: %w", a.exit())
		case <-ctx.Done():
			return fmt.Errorf("the agent is not ready: %w", err)
		case <-tick.C:
		}
	}
}

func (a *Agent) isReady() error {
	health, err := a.Client.Agent().Health()
	if err != nil {
		return err
	}
	if err := a.bootstrap(); err != nil {
		return err
	}
	if health.Client == nil {
		return nil
	}
	if !health.Client.Ok {
		return fmt.Errorf("the client is not healthy: %s", health.Client.Message)
	}
	id, err := a.NodeID()
	if err != nil {
		return err
	}
	node, _, err := a.Client.Nodes().Info(id, nil)
	if err != nil {
		return err
	}
	if node.Status != "ready" {
		return fmt.Errorf("node %s is %s", id, node.Status)
	}
	// A node registers without drivers that have not reported their health yet.
	drivers := []string{"exec2", "raw_exec"}
	if slices.Contains(a.Args, "-dev") {
		drivers = append(drivers, "mock_driver")
	}
	for _, name := range drivers {
		if d := node.Drivers[name]; d == nil || d.HealthDescription == silent {
			return fmt.Errorf("node %s has not detected driver %s yet", id, name)
		}
	}
	return nil
}

// bootstrap creates the bootstrap token if configured and missing.
func (a *Agent) bootstrap() error {
	if a.Secret == "" {
		return nil
	}
	if self, _, err := a.Client.ACLTokens().Self(nil); err == nil && self.Type == "management" {
		return nil
	}
	_, _, err := a.Client.ACLTokens().BootstrapOpts(a.Secret, nil)
	return err
}

// NodeID returns the ID of the agent's node.
func (a *Agent) NodeID() (string, error) {
	self, err := a.Client.Agent().Self()
	if err != nil {
		return "", err
	}
	if id := self.Stats["client"]["node_id"]; id != "" {
		return id, nil
	}
	return "", errors.New("the agent has no node")
}

// Reload makes the agent reload its configuration and certificates (SIGHUP). Client uses config
// from then on.
func (a *Agent) Reload(config *api.TLSConfig) error {
	c, err := api.NewClient(&api.Config{Address: a.Address(), TLSConfig: config})
	if err != nil {
		return err
	}
	a.Client, a.TLS = c, config
	return a.cmd.Process.Signal(syscall.SIGHUP)
}

// Purge stops every job of the default namespace, because tasks outlive their agent. It returns
// when no allocation is running or pending.
func (a *Agent) Purge(ctx context.Context) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := a.purge() // retry while there is no leader
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (a *Agent) purge() error {
	jobs, _, err := a.Client.Jobs().List(nil)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if _, _, err := a.Client.Jobs().Deregister(j.ID, true, nil); err != nil {
			return err
		}
	}
	allocs, _, err := a.Client.Allocations().List(nil)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(allocs, active) {
		return errors.New("not all allocations have ended")
	}
	return nil
}

func active(al *api.AllocationListStub) bool {
	return al.ClientStatus == api.AllocClientStatusRunning || al.ClientStatus == api.AllocClientStatusPending
}

// Stop ends the agent with SIGTERM and waits for it. After a timeout the agent is killed.
func (a *Agent) Stop() error { return a.end(syscall.SIGTERM) }

// Interrupt is Stop with SIGINT.
func (a *Agent) Interrupt() error { return a.end(syscall.SIGINT) }

func (a *Agent) end(sig syscall.Signal) error {
	if err := a.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-a.done:
		return nil
	case <-time.After(readyLimit):
		return errors.Join(fmt.Errorf("the agent did not end on %v", sig), a.Kill())
	}
}

// Kill ends the agent with SIGKILL and waits for it. Its tasks continue to run.
func (a *Agent) Kill() error {
	if err := a.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-a.done
	return nil
}

// ExitCode returns the exit code of an agent that has ended, -1 after a signal.
func (a *Agent) ExitCode() int {
	<-a.done
	return a.cmd.ProcessState.ExitCode()
}

// exit describes how the process ended.
func (a *Agent) exit() error {
	if a.err == nil {
		return errors.New("exit status 0")
	}
	return a.err
}
