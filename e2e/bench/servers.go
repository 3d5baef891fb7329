package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	// poll is the polling interval where no blocking query exists.
	poll = 5 * time.Millisecond
	// settleWithin bounds the time of such a poll.
	settleWithin = 30 * time.Second
)

// servers is a cluster of three server processes with data on disk.
type servers struct {
	all []*cluster.Agent
	log *os.File
}

// servers starts three servers and waits until all of them follow one leader. config is the content
// of a configuration file and may be empty.
func (b *bench) servers(ctx context.Context, config string) (*servers, error) {
	dir, err := os.MkdirTemp(b.dir, "servers-")
	if err != nil {
		return nil, err
	}
	extra := filepath.Join(dir, "extra.hcl")
	if err := os.WriteFile(extra, []byte(config), 0o600); err != nil {
		return nil, err
	}
	s := &servers{}
	if s.log, err = os.Create(filepath.Join(dir, "servers.log")); err != nil {
		return nil, err
	}
	for i := range 3 {
		o := cluster.Options{Bin: b.nomad, Dir: filepath.Join(dir, strconv.Itoa(i)), Log: s.log}
		o.Args = []string{"-server", "-bootstrap-expect=3", "-bind=127.0.0.1", "-log-level=INFO", fmt.Sprintf("-node=s%d", i),
			"-data-dir=" + filepath.Join(o.Dir, "data"), "-config=" + extra}
		if i > 0 {
			o.Args = append(o.Args, fmt.Sprintf("-retry-join=127.0.0.1:%d", s.all[0].Serf))
		}
		a, err := cluster.Start(ctx, o)
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.all = append(s.all, a)
	}
	if err := s.settled(ctx, 0); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// server starts one server with data on disk. The caller kills it.
func (b *bench) server(ctx context.Context) (*cluster.Agent, error) {
	dir, err := os.MkdirTemp(b.dir, "server-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	o := cluster.Options{Bin: b.nomad, Dir: dir, Log: log}
	o.Args = []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-log-level=WARN", "-data-dir=" + filepath.Join(dir, "data")}
	if b.profiles != "" {
		extra := filepath.Join(dir, "extra.hcl")
		if err := os.WriteFile(extra, []byte(debugRoutes), 0o600); err != nil {
			return nil, err
		}
		o.Args = append(o.Args, "-config="+extra)
	}
	a, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	err = eventually(ctx, "the server leads", func() error {
		if addr, err := a.Client.Status().Leader(); err != nil || addr == "" {
			return fmt.Errorf("no leader: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, a.Kill())
	}
	return a, nil
}

// stop kills all servers.
func (s *servers) stop() error {
	var errs []error
	for _, a := range s.all {
		errs = append(errs, a.Kill())
	}
	return errors.Join(append(errs, s.log.Close())...)
}

// addresses returns the addresses of the HTTP API.
func (s *servers) addresses() []string {
	var out []string
	for _, a := range s.all {
		out = append(out, a.Address())
	}
	return out
}

// leader returns the leader according to one of the servers, or -1.
func (s *servers) leader(ask *cluster.Agent) int {
	addr, err := ask.Client.Status().Leader()
	if err != nil {
		return -1
	}
	return slices.IndexFunc(s.all, func(a *cluster.Agent) bool { return addr == fmt.Sprintf("127.0.0.1:%d", a.RPC) })
}

// settled waits until all servers follow the same leader and have applied the log up to index.
func (s *servers) settled(ctx context.Context, index uint64) error {
	return eventually(ctx, "three servers follow one leader", func() error {
		lead := s.leader(s.all[0])
		conf, err := s.all[0].Client.Operator().RaftGetConfiguration(nil)
		if err != nil || lead < 0 || len(conf.Servers) != len(s.all) {
			return fmt.Errorf("no leader of %d servers: %v", len(s.all), err)
		}
		for i, a := range s.all {
			if s.leader(a) != lead {
				return fmt.Errorf("server %d follows another leader", i)
			}
			applied, err := applied(a)
			if err != nil || applied < index {
				return fmt.Errorf("server %d has applied %d of %d: %v", i, applied, index, err)
			}
		}
		return nil
	})
}

// applied returns the last applied index of a server.
func applied(a *cluster.Agent) (uint64, error) {
	self, err := a.Client.Agent().Self()
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(self.Stats["raft"]["applied_index"], 10, 64)
}

// restart restarts a killed server with its data and ports.
func (s *servers) restart(ctx context.Context, i int) error {
	a, err := cluster.Start(ctx, s.all[i].Options)
	if err == nil {
		s.all[i] = a
	}
	return err
}

// eventually calls ok until it returns no error.
func eventually(ctx context.Context, what string, ok func() error) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-tick.C:
		}
	}
}
