package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

const (
	tokenStops     = 110
	refusedWithin  = time.Second
	askAgain       = 5 * time.Millisecond
	tokenStopLimit = 4 * time.Minute
	tokenWaits     = 10 * time.Second // for one rejection
)

// tokensEnd stops allocations one after the other. It measures the time until their tokens are
// rejected everywhere: by HTTP and RPC of three servers, and by the API socket of another task.
func tokensEnd(ctx context.Context, b *bench) (said string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tokenStopLimit)
	defer cancel()
	s, err := b.servers(ctx, "")
	if err != nil {
		return "", false, err
	}
	defer s.stop()
	c, err := b.client(ctx, s)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, leave(ctx, c)) }()
	tokens, socket, err := b.tokensOf(ctx, c)
	if err != nil {
		return "", false, err
	}
	pool := rpc.NewPool(rpc.PoolConfig{})
	defer pool.Close()
	doors := s.doors(pool, socket)
	var took []time.Duration
	slowest := map[string]time.Duration{}
	for i := range tokenStops {
		d, last, err := s.untilRefused(ctx, stoppedJob(i), tokens[stoppedJob(i)], doors)
		if err != nil {
			return "", false, fmt.Errorf("stop %d: %w", i, err)
		}
		took = append(took, d)
		slowest[last] = max(slowest[last], d)
	}
	fmt.Fprintf(os.Stderr, "stopped → refused everywhere: %v; slowest by door: %v\n", rounded(took), slowest)
	p50, p99 := percentile(took, 50), percentile(took, 99)
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms (%d stops)", ms(p50), ms(p99), len(took)), p99 <= refusedWithin, nil
}

// leave stops every job and then the client. A client that stops first would leave its tasks
// running.
func leave(ctx context.Context, c *cluster.Agent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	return errors.Join(c.Purge(ctx), c.Stop())
}

func stoppedJob(i int) string { return fmt.Sprintf("stop-%d", i) }

// client starts an agent as a client of the servers.
func (b *bench) client(ctx context.Context, s *servers) (*cluster.Agent, error) {
	dir, err := os.MkdirTemp(b.dir, "client-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	return cluster.Start(ctx, cluster.Options{
		Bin: b.nomad,
		Dir: dir,
		Log: s.log,
		Args: []string{"-client", "-bind=127.0.0.1", "-log-level=WARN",
			"-data-dir=" + filepath.Join(dir, "data"), fmt.Sprintf("-servers=127.0.0.1:%d", s.all[0].RPC)},
	})
}

// tokensOf starts one task for each stop, and one that stays. It returns the tokens by job and the
// API socket of the task that stays.
func (b *bench) tokensOf(ctx context.Context, c *cluster.Agent) (map[string]string, string, error) {
	jobs := []string{"stays"}
	for i := range tokenStops {
		jobs = append(jobs, stoppedJob(i))
	}
	for _, id := range jobs {
		job := batch(id, 1, "exec2", map[string]any{"command": "/bin/sleep", "args": []string{"600"}})
		job.TaskGroups[0].Tasks[0].Identities = []*api.WorkloadIdentity{{Name: "default", File: true}}
		if _, _, err := c.Client.Jobs().Register(job, nil); err != nil {
			return nil, "", err
		}
	}
	tokens, socket := map[string]string{}, ""
	for _, id := range jobs {
		allocs, err := inStatus(ctx, c, goal{id, 1, api.AllocClientStatusRunning})
		if err != nil {
			return nil, "", err
		}
		secrets := filepath.Join(c.Dir, "data", "alloc", allocs[0].ID, "task", "secrets")
		text, err := os.ReadFile(filepath.Join(secrets, "nomad_token"))
		if err != nil {
			return nil, "", err
		}
		if tokens[id] = strings.TrimSpace(string(text)); id == "stays" {
			socket = filepath.Join(secrets, "api.sock")
		}
	}
	return tokens, socket, nil
}

// entry is an endpoint that accepts tokens; open reports whether it accepts the token.
type entry struct {
	name string
	open func(ctx context.Context, token string) (bool, error)
}

// doors returns all endpoints. Every server answers from its own state.
func (s *servers) doors(pool *rpc.Pool, socket string) []entry {
	var out []entry
	for i, a := range s.all {
		url, addr := a.Address()+"/v1/jobs?stale&per_page=1", fmt.Sprintf("127.0.0.1:%d", a.RPC)
		out = append(out, entry{fmt.Sprintf("HTTP of s%d", i), func(ctx context.Context, token string) (bool, error) {
			return letIn(ctx, http.DefaultClient, url, token)
		}}, entry{fmt.Sprintf("RPC of s%d", i), func(ctx context.Context, token string) (bool, error) {
			req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: token, AllowStale: true}}
			err := pool.Call(ctx, addr, "ACL.WhoAmI", req, &message.ACLWhoAmIResponse{})
			if errors.Is(err, apierror.ErrPermissionDenied) {
				return false, nil
			}
			return true, err
		}})
	}
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dir, err := os.Open(filepath.Dir(socket)) // the path is too long for a socket address
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		var d net.Dialer
		return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
	}}}
	return append(out, entry{"task API", func(ctx context.Context, token string) (bool, error) {
		return letIn(ctx, through, "http://task/v1/jobs?stale&per_page=1", token)
	}})
}

// letIn sends a token by HTTP and reports whether it is accepted.
func letIn(ctx context.Context, c *http.Client, url, token string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("X-Nomad-Token", token)
	resp, err := c.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusForbidden:
		return false, nil
	}
	return false, fmt.Errorf("%s: %s", url, resp.Status)
}

// untilRefused stops a job. It returns how long its token was accepted, and which endpoint accepted
// it last.
func (s *servers) untilRefused(ctx context.Context, job, token string, doors []entry) (time.Duration, string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenWaits)
	defer cancel()
	for _, d := range doors {
		if in, err := d.open(ctx, token); err != nil || !in {
			return 0, "", fmt.Errorf("%s refuses a living token: %v", d.name, err)
		}
	}
	began := time.Now()
	if _, _, err := s.all[rand.N(len(s.all))].Client.Jobs().Deregister(job, false, nil); err != nil {
		return 0, "", err
	}
	took := make([]time.Duration, len(doors))
	all, ctx := errgroup.WithContext(ctx)
	for i, d := range doors {
		all.Go(func() error {
			for {
				in, err := d.open(ctx, token)
				if err != nil {
					return fmt.Errorf("%s: %w", d.name, err)
				}
				if took[i] = time.Since(began); !in {
					return nil
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("%s lets in the token of a task that was stopped %v ago", d.name, time.Since(began))
				case <-time.After(askAgain):
				}
			}
		})
	}
	err := all.Wait()
	last := slices.Index(took, slices.Max(took))
	return took[last], doors[last].name, err
}
