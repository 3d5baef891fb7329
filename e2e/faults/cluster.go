//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// Timeouts.
const (
	askWithin   = time.Second     // one request to one server
	readyWithin = 2 * time.Minute // until a server answers, or all agree
	poll        = 25 * time.Millisecond
	endWithin   = time.Minute // of a server after SIGINT
)

// Options of a cluster.
type Options struct {
	Bin     string // the nomad program
	Dir     string // for the servers' data and logs
	Servers int
	Clients int // nodes with the driver mock_driver
	// Machines is the number of nodes whose tasks are processes.
	Machines int
	// Config is additional configuration of every server, in HCL.
	Config string
	// MachineConfig is additional configuration of the client on every machine, in HCL.
	MachineConfig string
}

// Cluster is a number of servers, and clients if any, on a network of their own.
type Cluster struct {
	Options
	Network  *Network
	Servers  []*Server
	Nodes    []*Node
	Machines []*Machine
	group    *cgroup.Group
}

// Server is one server, whether its process runs or not.
type Server struct {
	process
	Addr    string // RPC address for other servers
	stopped bool   // by SIGSTOP
}

// Start starts a cluster and waits until all servers follow one leader.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{Options: o}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) open(ctx context.Context) (err error) {
	if c.group, err = newGroup(); err != nil {
		return err
	}
	if c.Network, err = NewNetwork(c.Options.Servers + c.Options.Clients + c.Options.Machines); err != nil {
		return err
	}
	for i, h := range c.Network.hosts[:c.Options.Servers] {
		s := &Server{Addr: h.Addr.String() + ":4647"}
		if s.process, err = c.newProcess(fmt.Sprintf("s%d", i+1), h); err != nil {
			return err
		}
		c.Servers = append(c.Servers, s)
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	if _, err = c.Agree(ctx); err != nil {
		return err
	}
	if err := c.openMachines(ctx); err != nil {
		return err
	}
	for i, h := range c.Network.hosts[c.Options.Servers:][:c.Options.Clients] {
		n := &Node{}
		if n.process, err = c.newProcess(fmt.Sprintf("c%d", i+1), h); err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
		if err := n.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openMachines boots the machines.
func (c *Cluster) openMachines(ctx context.Context) error {
	for i, h := range c.Network.hosts[c.Options.Servers+c.Options.Clients:] {
		m, err := c.newMachine(fmt.Sprintf("m%d", i+1), h)
		if err != nil {
			return err
		}
		c.Machines = append(c.Machines, m)
		if err := m.Boot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close kills every server and removes network and group.
func (c *Cluster) Close() error {
	var errs []error
	for _, m := range c.Machines {
		errs = append(errs, m.PowerOff())
		m.Client.Close()
	}
	for _, n := range c.Nodes {
		errs = append(errs, n.Kill())
		n.Client.Close()
	}
	for _, s := range c.Servers {
		errs = append(errs, s.Kill())
		s.Client.Close()
	}
	if c.Network != nil {
		errs = append(errs, c.Network.Close())
	}
	if c.group != nil {
		errs = append(errs, c.group.KillAll(endWithin), c.group.Remove())
		forgetParents(c.group)
	}
	return errors.Join(errs...)
}

// Start starts the server with the data of its directory and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	cfg, err := s.writeConfig()
	if err != nil {
		return err
	}
	s.stopped = false
	return s.run(ctx, cfg, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
}

// writeConfig writes the configuration of the agent.
func (s *Server) writeConfig() (string, error) {
	var others []string
	for _, h := range s.cluster.Network.hosts[:s.cluster.Options.Servers] {
		if h != s.host {
			others = append(others, fmt.Sprintf("%q", h.Addr))
		}
	}
	text := fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = %q\n%s\nserver {\n  enabled = true\n  bootstrap_expect = %d\n"+
		"  rejoin_after_leave = true\n  server_join {\n    retry_join = [%s]\n    retry_interval = \"1s\"\n  }\n}\n",
		s.Name, filepath.Join(s.Dir, "data"), s.host.Addr, s.cluster.Config, s.cluster.Options.Servers, strings.Join(others, ", "))
	return s.write(text)
}

// Answers reports whether the process exists and is not stopped.
func (s *Server) Answers() bool { return s.Runs() && !s.stopped }

// End ends the server with SIGINT and waits for its end. Its configuration determines whether it
// leaves the cluster.
func (s *Server) End(ctx context.Context) error {
	if err := s.cmd.Process.Signal(unix.SIGINT); err != nil {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(endWithin):
		s.cmd.Process.Signal(unix.SIGQUIT) // its goroutines go to its log
		return fmt.Errorf("server %s did not end on SIGINT within %v", s.Name, endWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop stops the process (SIGSTOP) and waits until its last thread has stopped: on a busy machine
// that is long after the signal.
func (s *Server) Stop() error {
	s.stopped = true
	if err := s.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, s.Pid(), nil, unix.WSTOPPED, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// Continue continues a stopped process.
func (s *Server) Continue() error {
	s.stopped = false
	return s.cmd.Process.Signal(unix.SIGCONT)
}

// within retries check until it returns no error, at most for limit.
func within(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var last error // with a reason, if there was one
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("within %v: %s: %w", limit, what, last)
		case <-tick.C:
		}
	}
}
