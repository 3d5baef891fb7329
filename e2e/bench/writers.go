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
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// writersAtOnce is how many clients register jobs, each over a connection that
	// it keeps, one job after the other.
	writersAtOnce = 16
	// warmUp comes before what is counted.
	warmUp = time.Second
	// counted is for how long registrations are counted.
	counted = 5 * time.Second
	// bareShare is what the bare log may be faster by.
	bareShare = 2
)

// rated is what a load came to.
type rated struct {
	perSecond float64
	cpu       time.Duration // of all servers, for each write
}

// String shows both.
func (r rated) String() string {
	return fmt.Sprintf("%.0f/s (%d µs of CPU each)", r.perSecond, r.cpu.Microseconds())
}

// registrationRate has writers register small jobs with three servers, through the
// leader and spread over all, and compares with a bare log on the same disk.
func registrationRate(ctx context.Context, b *bench) (string, bool, error) {
	atLeader, spread, err := b.registrations(ctx)
	if err != nil {
		return "", false, err
	}
	size, err := entrySize()
	if err != nil {
		return "", false, err
	}
	bare, err := b.bareRate(ctx, size)
	if err != nil {
		return "", false, fmt.Errorf("bare log: %w", err)
	}
	enough := func(r rated) bool { return r.perSecond >= 3000 || r.perSecond*bareShare >= bare.perSecond }
	return fmt.Sprintf("%v at the leader, %v spread; bare log %v with entries of %d bytes", atLeader, spread, bare, size),
		enough(atLeader) && enough(spread), nil
}

// registrations measures registrations with three servers.
func (b *bench) registrations(ctx context.Context) (atLeader, spread rated, err error) {
	s, err := b.servers(ctx, b.serverConfig())
	if err != nil {
		return rated{}, rated{}, err
	}
	defer s.stop()
	lead := s.leader(s.all[0])
	if lead < 0 {
		return rated{}, rated{}, fmt.Errorf("no leader is known")
	}
	var pids []int
	for _, a := range s.all {
		pids = append(pids, a.Pid())
	}
	load := func(prefix string, to []string, out *rated) error {
		return b.profiled(ctx, s, prefix, warmUp+counted, func() (err error) {
			*out, err = writeRate(ctx, prefix, to, pids)
			return err
		})
	}
	if err := load("led", []string{s.all[lead].Address()}, &atLeader); err != nil {
		return rated{}, rated{}, err
	}
	err = load("spread", s.addresses(), &spread)
	return atLeader, spread, err
}

// writeRate is how many registrations a second are acknowledged by servers.
func writeRate(ctx context.Context, prefix string, servers []string, pids []int) (rated, error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+counted+settleWithin)
	defer cancel()
	var done atomic.Int64
	end := time.Now().Add(warmUp + counted)
	all, ctx := errgroup.WithContext(ctx)
	for i := range writersAtOnce {
		all.Go(func() error {
			return write(ctx, servers[i%len(servers)], fmt.Sprintf("%s-%d", prefix, i), end, &done)
		})
	}
	var before int64
	began, used := time.Now(), time.Duration(0)
	select {
	case <-ctx.Done():
	case <-time.After(warmUp):
		before, began, used = done.Load(), time.Now(), cpuTime(pids...)
	}
	err := all.Wait()
	writes := done.Load() - before
	return rated{float64(writes) / time.Since(began).Seconds(), (cpuTime(pids...) - used) / time.Duration(max(writes, 1))}, err
}

// write registers jobs over one connection until end. The client is kept small, as
// it shares its cores with the servers: requests are written, answers read.
func write(ctx context.Context, server, prefix string, end time.Time, done *atomic.Int64) error {
	host := strings.TrimPrefix(server, "http://")
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
	for n := 0; time.Now().Before(end); n++ {
		text := bytes.ReplaceAll(body, []byte(mark), fmt.Appendf(nil, "%s-%d", prefix, n))
		request := fmt.Appendf(nil, "PUT /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(text), text)
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
		done.Add(1)
	}
	return nil
}

// smallJob is a batch job of one task, for which there is no node: its evaluation is
// processed and ends in a blocked one.
func smallJob(id string) *api.Job {
	return batch(id, 1, "mock_driver", map[string]any{"run_for": "1s"})
}

// storedJob is a job as the servers keep it.
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
	stored.Canonicalize()
	return &stored, nil
}

// entrySize is how large the log entry is that registers a small job.
func entrySize() (int, error) {
	job, err := storedJob(smallJob("spread-10-1000"))
	if err != nil {
		return 0, err
	}
	entry, err := nomad.EncodeCommand(nomad.JobRegisterRequestType, &nomad.JobRegisterRequest{Job: job,
		Eval: &nomad.Evaluation{ID: nomad.NewID(), Namespace: "default", Type: job.Type, TriggeredBy: nomad.EvalTriggerJobRegister,
			JobID: job.ID, Status: nomad.EvalStatusPending}})
	return len(entry), err
}
