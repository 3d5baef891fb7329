package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"golang.org/x/sync/errgroup"
)

// bareRate measures the entries per second of three processes that only run a Raft log. It is the
// reference for the rate of registrations.
func (b *bench) bareRate(ctx context.Context, size int) (rated, error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+counted+settleWithin)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, "bare-")
	if err != nil {
		return rated{}, err
	}
	addrs, err := freeAddresses(3)
	if err != nil {
		return rated{}, err
	}
	type heardOf struct {
		rate    float64
		entries int64
	}
	said := make(chan heardOf, len(addrs))
	var pids []int
	for i := range addrs {
		c, err := startChild(ctx, "raft-node", fmt.Sprintf("raft-%d", i), filepath.Join(dir, fmt.Sprint(i)), fmt.Sprint(i),
			fmt.Sprint(size), strings.Join(addrs, ","))
		if err != nil {
			return rated{}, err
		}
		defer c.stop()
		pids = append(pids, c.cmd.Process.Pid)
		go func() {
			var h heardOf
			if _, err := fmt.Fscanln(c.out, &h.rate, &h.entries); err == nil { // only the leader prints them
				said <- h
			}
		}()
	}
	select {
	case h := <-said:
		return rated{h.rate, cpuTime(pids...) / time.Duration(max(h.entries, 1))}, nil
	case <-ctx.Done():
		return rated{}, ctx.Err()
	}
}

// freeAddresses returns n different free addresses. All listeners are open until the last address
// is selected.
func freeAddresses(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// raftNode is one of the three processes. Its arguments are the directory, the number, the size of
// entries and the addresses. The leader appends entries for some seconds and prints the rate and
// the total.
func raftNode(args []string) error {
	if err := expectWord(os.Stdin, "go"); err != nil {
		return err
	}
	var number, size int
	if _, err := fmt.Sscan(args[1]+" "+args[2], &number, &size); err != nil {
		return err
	}
	r, err := openBare(args[0], number, strings.Split(args[3], ","))
	if err != nil {
		return err
	}
	for leads := range r.LeaderCh() {
		if leads {
			rate, entries, err := appendRate(r, size)
			if err != nil {
				return err
			}
			fmt.Println(rate, entries)
		}
	}
	return nil
}

// openBare opens the log, bootstraps the cluster and returns the Raft node.
func openBare(dir string, number int, addrs []string) (*raft.Raft, error) {
	if err := os.MkdirAll(filepath.Join(dir, "wal"), 0o700); err != nil {
		return nil, err
	}
	log, err := wal.Open(filepath.Join(dir, "wal"))
	if err != nil {
		return nil, err
	}
	cached, err := raft.NewLogCache(512, log)
	if err != nil {
		return nil, err
	}
	snaps, err := raft.NewFileSnapshotStore(dir, 1, io.Discard)
	if err != nil {
		return nil, err
	}
	at, err := net.ResolveTCPAddr("tcp", addrs[number])
	if err != nil {
		return nil, err
	}
	trans, err := raft.NewTCPTransport(addrs[number], at, 3, 10*time.Second, io.Discard)
	if err != nil {
		return nil, err
	}
	cfg := raft.DefaultConfig()
	cfg.LocalID = raft.ServerID(addrs[number])
	cfg.Logger = hclog.NewNullLogger()
	r, err := raft.NewRaft(cfg, nothingApplied{}, cached, log, snaps, trans)
	if err != nil {
		return nil, err
	}
	var all raft.Configuration
	for _, a := range addrs {
		all.Servers = append(all.Servers, raft.Server{ID: raft.ServerID(a), Address: raft.ServerAddress(a)})
	}
	return r, r.BootstrapCluster(all).Error()
}

// appendRate appends entries with one goroutine for each writer.
func appendRate(r *raft.Raft, size int) (rate float64, entries int64, err error) {
	var done atomic.Int64
	end := time.Now().Add(warmUp + counted)
	all, ctx := errgroup.WithContext(context.Background())
	for range writersAtOnce {
		all.Go(func() error {
			for time.Now().Before(end) && ctx.Err() == nil {
				if err := r.Apply(make([]byte, size), settleWithin).Error(); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	<-time.After(warmUp)
	before, began := done.Load(), time.Now()
	err = all.Wait()
	return float64(done.Load()-before) / time.Since(began).Seconds(), done.Load(), err
}

// nothingApplied is an empty state machine.
type nothingApplied struct{}

// Apply implements raft.FSM.
func (nothingApplied) Apply(*raft.Log) any { return nil }

// Snapshot implements raft.FSM.
func (nothingApplied) Snapshot() (raft.FSMSnapshot, error) { return nothingApplied{}, nil }

// Restore implements raft.FSM.
func (nothingApplied) Restore(r io.ReadCloser) error { return r.Close() }

// Persist implements raft.FSMSnapshot.
func (nothingApplied) Persist(sink raft.SnapshotSink) error { return sink.Close() }

// Release implements raft.FSMSnapshot.
func (nothingApplied) Release() {}
