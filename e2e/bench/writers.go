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

// registrationRate has writers register small jobs with three servers, through the
// leader and spread over all, and compares with a bare log on the same disk.
func registrationRate(ctx context.Context, b *bench) (string, bool, error) {
	s, err := b.servers(ctx, "")
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	lead := s.leader(s.all[0])
	if lead < 0 {
		return "", false, fmt.Errorf("no leader is known")
	}
	atLeader, err := writeRate(ctx, "led", []string{s.all[lead].Address()})
	if err != nil {
		return "", false, err
	}
	spread, err := writeRate(ctx, "spread", s.addresses())
	if err != nil {
		return "", false, err
	}
	if err := s.stop(); err != nil {
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
	got := fmt.Sprintf("%.0f/s at the leader, %.0f/s spread; bare log %.0f/s with entries of %d bytes", atLeader, spread, bare, size)
	enough := func(rate float64) bool { return rate >= 3000 || rate*bareShare >= bare }
	return got, enough(atLeader) && enough(spread), nil
}

// writeRate is how many registrations a second are acknowledged by servers.
func writeRate(ctx context.Context, prefix string, servers []string) (float64, error) {
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
	began := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(warmUp):
		before, began = done.Load(), time.Now()
	}
	err := all.Wait()
	return float64(done.Load()-before) / time.Since(began).Seconds(), err
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

// smallJob is a service of one task, for which there is no node: it stays queued.
func smallJob(id string) *api.Job {
	job := batch(id, 1, "mock_driver", map[string]any{"run_for": "1s"})
	kind := "service"
	job.Type = &kind
	return job
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
