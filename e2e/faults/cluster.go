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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/httpclient"
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
	// Config is additional configuration of every server, in HCL.
	Config string
}

// Cluster is a number of servers on a network of their own.
type Cluster struct {
	Options
	Network *Network
	Servers []*Server
	group   *cgroup.Group
}

// Server is one server, whether its process runs or not.
type Server struct {
	Name   string
	Addr   string // RPC address for other servers
	Client *httpclient.Client
	Dir    string

	ask     *httpclient.Client // with a short timeout
	cluster *Cluster
	host    *Host
	cmd     *exec.Cmd     // nil before the first Start
	done    chan struct{} // closed when the process has ended
	stopped bool          // by SIGSTOP
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
	if c.Network, err = NewNetwork(c.Options.Servers); err != nil {
		return err
	}
	for i, h := range c.Network.hosts {
		s := &Server{Name: fmt.Sprintf("s%d", i+1), Addr: h.Addr.String() + ":4647", cluster: c, host: h}
		s.Dir = filepath.Join(c.Dir, s.Name)
		transport := &http.Transport{DialContext: c.Network.Dial, MaxIdleConnsPerHost: 32}
		if s.Client, err = s.client(&http.Client{Transport: transport}); err != nil {
			return err
		}
		if s.ask, err = s.client(&http.Client{Transport: transport, Timeout: askWithin}); err != nil {
			return err
		}
		c.Servers = append(c.Servers, s)
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	_, err = c.Agree(ctx)
	return err
}

// client returns a client of the server's API.
func (s *Server) client(h *http.Client) (*httpclient.Client, error) {
	return httpclient.NewClient(&httpclient.Config{Address: "http://" + s.host.Addr.String() + ":4646", HttpClient: h})
}

// Close kills every server and removes network and group.
func (c *Cluster) Close() error {
	var errs []error
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
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.cluster.Bin, "agent", "-config="+cfg)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.host.room.do(cmd.Start); err != nil {
		return fmt.Errorf("start server %s: %w", s.Name, err)
	}
	done := make(chan struct{})
	s.cmd, s.done, s.stopped = cmd, done, false
	go func() {
		defer close(done)
		cmd.Wait() // the exit status does not matter: most are killed
	}()
	if err := enter(s.cluster.group, cmd.Process.Pid); err != nil {
		return errors.Join(err, s.Kill())
	}
	return s.wait(ctx)
}

// writeConfig writes the configuration of the agent.
func (s *Server) writeConfig() (string, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return "", err
	}
	var others []string
	for _, h := range s.cluster.Network.hosts {
		if h != s.host {
			others = append(others, fmt.Sprintf("%q", h.Addr))
		}
	}
	text := fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = %q\n%s\nserver {\n  enabled = true\n  bootstrap_expect = %d\n"+
		"  rejoin_after_leave = true\n  server_join {\n    retry_join = [%s]\n    retry_interval = \"1s\"\n  }\n}\n",
		s.Name, filepath.Join(s.Dir, "data"), s.host.Addr, s.cluster.Config, s.cluster.Options.Servers, strings.Join(others, ", "))
	name := filepath.Join(s.Dir, "agent.hcl")
	return name, os.WriteFile(name, []byte(text), 0o600)
}

// wait waits until the server answers.
func (s *Server) wait(ctx context.Context) error {
	return within(ctx, readyWithin, "server "+s.Name+" answers", func(ctx context.Context) error {
		if !s.Runs() {
			return errors.New("the process ended: see " + filepath.Join(s.Dir, "log"))
		}
		_, err := s.ask.Agent().Self()
		return err
	})
}

// Runs reports whether the process exists, stopped or not.
func (s *Server) Runs() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Pid returns the process ID of the server, 0 before its first Start.
func (s *Server) Pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Answers reports whether the process exists and is not stopped.
func (s *Server) Answers() bool { return s.Runs() && !s.stopped }

// Kill ends the server with SIGKILL and waits for its end.
func (s *Server) Kill() error {
	if !s.Runs() {
		return nil
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.done
	return nil
}

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
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("within %v: %s: %w", limit, what, err)
		case <-tick.C:
		}
	}
}
