package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	// writersAtOnce is the number of concurrent clients. Each registers jobs one after the other
	// over its own connection.
	writersAtOnce = 16
	// warmUp is the time before the measurement. The heaps of new servers grow, and each page of
	// new memory costs as much as a write.
	warmUp = 3 * time.Second
	// counted is the duration of the measurement.
	counted = 5 * time.Second
	// minRegistrations is the target in registrations per second.
	minRegistrations = 1000
)

// rated is the result of a load.
type rated struct {
	perSecond float64
	cpu       time.Duration // of all servers, per write
}

// String returns the rate and the CPU time.
func (r rated) String() string {
	return fmt.Sprintf("%.0f/s (%d µs of CPU each)", r.perSecond, r.cpu.Microseconds())
}

// work is shared by the clients of a load: each repeats an operation until the end.
type work struct {
	end  time.Time
	done atomic.Int64 // operations
}

// writer registers jobs with one server, one after the other, until the end of the work. It shares the
// cores of the servers and therefore does little else.
type writer func(ctx context.Context, to *cluster.Agent, prefix string, w *work) error

// rpcRegistrations registers small jobs with the leader by RPC, like agents. The reference is a raw
// log on the same disk, which does not use HTTP either.
func rpcRegistrations(ctx context.Context, b *bench) (string, bool, error) {
	return b.compared(ctx, "rpc", writeRPC, "at the leader")
}

// httpRegistrations is rpcRegistrations over the HTTP API. It also measures writers that are
// distributed over all servers.
func httpRegistrations(ctx context.Context, b *bench) (string, bool, error) {
	return b.compared(ctx, "http", writeHTTP, "at the leader", spread)
}

// spread is the place of writers that are distributed over all servers.
const spread = "spread"

// compared compares the writers at each place with a raw log.
func (b *bench) compared(ctx context.Context, name string, write writer, places ...string) (string, bool, error) {
	size, err := entrySize()
	if err != nil {
		return "", false, err
	}
	bare, err := b.bareRate(ctx, size)
	if err != nil {
		return "", false, fmt.Errorf("raw log: %w", err)
	}
	var said []string
	ok := true
	for _, where := range places {
		got, err := b.registrations(ctx, name, write, where)
		if err != nil {
			return "", false, err
		}
		ok = ok && (got.perSecond >= minRegistrations)
		said = append(said, fmt.Sprintf("%v %s, %.0f %% of the raw log", got, where, 100*got.perSecond/bare.perSecond))
	}
	return fmt.Sprintf("%s; raw log %v with entries of %d bytes", strings.Join(said, ", "), bare, size), ok, nil
}

// registrations measures registrations with three new servers. The names of profiles consist of
// name and "led" or "spread".
func (b *bench) registrations(ctx context.Context, name string, write writer, where string) (out rated, err error) {
	s, err := b.servers(ctx, b.serverConfig())
	if err != nil {
		return rated{}, err
	}
	defer s.stop()
	lead := s.leader(s.all[0])
	if lead < 0 {
		return rated{}, fmt.Errorf("no leader")
	}
	var pids []int
	for _, a := range s.all {
		pids = append(pids, a.Pid())
	}
	to, place := s.all[lead:lead+1], "led"
	if where == spread {
		to, place = s.all, spread
	}
	err = b.profiled(ctx, s.addresses(), profile{name + "-" + place, warmUp + counted}, func() (err error) {
		out, err = writeRate(ctx, write, to, pids)
		return err
	})
	return out, err
}

// writeRate returns the acknowledged registrations per second.
func writeRate(ctx context.Context, write writer, servers []*cluster.Agent, pids []int) (rated, error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+counted+settleWithin)
	defer cancel()
	w := &work{end: time.Now().Add(warmUp + counted)}
	all, ctx := errgroup.WithContext(ctx)
	for i := range writersAtOnce {
		all.Go(func() error {
			return write(ctx, servers[i%len(servers)], fmt.Sprintf("job-%d", i), w)
		})
	}
	var before int64
	began, used := time.Now(), time.Duration(0)
	select {
	case <-ctx.Done():
	case <-time.After(warmUp):
		before, began, used = w.done.Load(), time.Now(), cpuTime(pids...)
	}
	err := all.Wait()
	writes := w.done.Load() - before
	return rated{float64(writes) / time.Since(began).Seconds(), (cpuTime(pids...) - used) / time.Duration(max(writes, 1))}, err
}

// writeRPC registers jobs over its own session.
func writeRPC(ctx context.Context, to *cluster.Agent, prefix string, w *work) error {
	pool := rpc.NewPool(rpc.PoolConfig{})
	defer pool.Close()
	job, err := storedJob(smallJob("job"))
	if err != nil {
		return err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(to.RPC))
	for n := 0; time.Now().Before(w.end); n++ {
		job.ID = fmt.Sprintf("%s-%d", prefix, n)
		job.Name = job.ID
		req := &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global"}}
		if err := pool.Call(ctx, addr, "Job.Register", req, &message.JobRegisterResponse{}); err != nil {
			return err
		}
		w.done.Add(1)
	}
	return nil
}

// writeHTTP registers jobs over one connection. It writes requests and reads responses without an
// http.Client.
func writeHTTP(ctx context.Context, to *cluster.Agent, prefix string, w *work) error {
	host := strings.TrimPrefix(to.Address(), "http://")
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in := bufio.NewReader(conn)
	mark := "ID-TO-BE"
	body, err := json.Marshal(&api.JobRegisterRequest{Job: smallJob(mark)})
	if err != nil {
		return err
	}
	for n := 0; time.Now().Before(w.end); n++ {
		text := bytes.ReplaceAll(body, []byte(mark), fmt.Appendf(nil, "%s-%d", prefix, n))
		request := fmt.Appendf(nil,
			"PUT /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(text), text)
		if _, err := conn.Write(request); err != nil {
			return err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		said, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("register: %s: %s", resp.Status, said)
		}
		w.done.Add(1)
	}
	return nil
}

// smallJob returns a batch job of one task without a feasible node. Its evaluation creates a
// blocked evaluation.
func smallJob(id string) *api.Job {
	return batch(id, 1, "mock_driver", map[string]any{"run_for": "1s"})
}

// storedJob returns a job as the state store holds it.
func storedJob(job *api.Job) (*nomad.Job, error) {
	job.Canonicalize()
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	var stored nomad.Job
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, err
	}
	jobrules.Canonicalize(&stored)
	return &stored, nil
}

// entrySize returns the size of the log entry of a small registration.
func entrySize() (int, error) {
	job, err := storedJob(smallJob("spread-10-1000"))
	if err != nil {
		return 0, err
	}
	entry, err := codec.EncodeCommand(message.JobRegisterRequestType, &message.JobRegisterRequest{Job: job,
		Eval: &nomad.Evaluation{ID: nomad.NewID(), Namespace: "default", Type: job.Type, TriggeredBy: nomad.EvalTriggerJobRegister,
			JobID: job.ID, Status: nomad.EvalStatusPending}})
	return len(entry), err
}
