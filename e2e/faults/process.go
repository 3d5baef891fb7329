//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/open-nomad/open-nomad/api"
)

// process is an agent on a host of the network, whether it runs or not.
type process struct {
	Name   string
	Client *api.Client
	Dir    string

	ask     *api.Client // with a short timeout
	cluster *Cluster
	host    *Host
	cmd     *exec.Cmd     // nil before the first start
	done    chan struct{} // closed when the process has ended
}

// newProcess returns an agent that was not started.
func (c *Cluster) newProcess(name string, h *Host) (p process, err error) {
	p = process{Name: name, Dir: filepath.Join(c.Dir, name), cluster: c, host: h}
	transport := &http.Transport{DialContext: c.Network.Dial, MaxIdleConnsPerHost: 32}
	if p.Client, err = p.client(&http.Client{Transport: transport}); err != nil {
		return p, err
	}
	p.ask, err = p.client(&http.Client{Transport: transport, Timeout: askWithin})
	return p, err
}

// client returns a client of the agent's API.
func (p *process) client(h *http.Client) (*api.Client, error) {
	return api.NewClient(&api.Config{Address: "http://" + p.host.Addr.String() + ":4646", HttpClient: h})
}

// write writes the configuration of the agent and returns its path.
func (p *process) write(config string) (string, error) {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return "", err
	}
	name := filepath.Join(p.Dir, "agent.hcl")
	return name, os.WriteFile(name, []byte(config), 0o600)
}

// run starts the agent with the data of its directory and waits until it answers.
func (p *process) run(ctx context.Context, config string, attr *syscall.SysProcAttr) error {
	log, err := os.OpenFile(filepath.Join(p.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.cluster.Bin, "agent", "-config="+config)
	cmd.Stdout, cmd.Stderr = log, log
	attr.Setpgid = true
	cmd.SysProcAttr = attr
	if err := p.host.room.do(cmd.Start); err != nil {
		return fmt.Errorf("start agent %s: %w", p.Name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		cmd.Wait() // the exit status does not matter: most are killed
	}()
	if err := enter(p.cluster.group, cmd.Process.Pid); err != nil {
		return errors.Join(err, p.Kill())
	}
	return within(ctx, readyWithin, "agent "+p.Name+" answers", func(ctx context.Context) error {
		if !p.Runs() {
			return errors.New("the process ended: see " + filepath.Join(p.Dir, "log"))
		}
		_, err := p.ask.Agent().Self()
		return err
	})
}

// Runs reports whether the process exists, stopped or not.
func (p *process) Runs() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Pid returns the process ID of the agent, 0 before its first start.
func (p *process) Pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill ends the agent with SIGKILL and waits for its end.
func (p *process) Kill() error {
	if !p.Runs() {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}
