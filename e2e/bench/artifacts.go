package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// files serves one file of random bytes on a loopback address and counts its downloads.
type files struct {
	url       string
	sum       string // SHA-256
	downloads atomic.Int64
	srv       *http.Server
}

func serveFile(size int) (*files, error) {
	body := make([]byte, size)
	rand.Read(body) // never fails: crypto/rand ends the process instead
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	f := &files{url: "http://" + l.Addr().String() + "/file", sum: hex.EncodeToString(sum[:])}
	f.srv = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.downloads.Add(1)
		http.ServeContent(w, r, "file", time.Time{}, bytes.NewReader(body))
	})}
	go f.srv.Serve(l) //nolint:errcheck // returns when close is called
	return f, nil
}

func (f *files) close() { f.srv.Close() } //nolint:errcheck // nothing is written anymore

// bare downloads the file without a sandbox.
func (f *files) bare(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return time.Since(began), err
}

// artifact returns a job whose tasks download the file.
func (f *files) artifact(id string, n int, checksum string) *api.Job {
	job := batch(id, n, "exec2", map[string]any{"command": "/bin/date", "args": []string{"+%s%N"}})
	t := job.TaskGroups[0].Tasks[0]
	t.Resources.CPU = nil
	source := f.url
	a := &api.TaskArtifact{GetterSource: &source}
	if checksum != "" {
		a.GetterOptions = map[string]string{"checksum": "sha256:" + checksum}
	}
	t.Artifacts = []*api.TaskArtifact{a}
	return job
}

// artifactCost submits tasks with and without an artifact of 1 MiB in turn.
func artifactCost(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	f, err := serveFile(1 << 20)
	if err != nil {
		return "", false, err
	}
	defer f.close()
	var with, without, bare []time.Duration
	for i := range 40 {
		w, err := runFirst(ctx, a, f.artifact(fmt.Sprintf("with-%d", i), 1, ""))
		if err != nil {
			return "", false, err
		}
		o, err := firstInstruction(ctx, a, fmt.Sprintf("without-%d", i))
		if err != nil {
			return "", false, err
		}
		d, err := f.bare(ctx)
		if err != nil {
			return "", false, err
		}
		if i >= 5 { // the first ones are a warm-up
			with, without, bare = append(with, w), append(without, o), append(bare, d)
		}
	}
	cost := median(with) - median(without) - median(bare)
	return fmt.Sprintf("p50 %.1f ms over a bare download of %.1f ms (task with it %.1f ms, without %.1f ms)", ms(cost),
		ms(median(bare)), ms(median(with)), ms(median(without))), cost <= 40*time.Millisecond, nil
}

// cachedArtifacts starts 100 allocations that need the same file of 50 MiB with a checksum.
func cachedArtifacts(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	f, err := serveFile(50 << 20)
	if err != nil {
		return "", false, err
	}
	defer f.close()
	const n = 100
	began := time.Now()
	if err := runAll(ctx, a, f.artifact("cached", n, f.sum), n); err != nil {
		return "", false, err
	}
	with := time.Since(began)
	began = time.Now()
	if err := runAll(ctx, a, batch("uncached", n, "exec2", map[string]any{"command": "/bin/true"}), n); err != nil {
		return "", false, err
	}
	without := time.Since(began)
	loads := f.downloads.Load()
	return fmt.Sprintf("%d download(s), %.1f s; tasks without it %.1f s", loads, with.Seconds(), without.Seconds()),
		loads == 1 && with-without <= 2*time.Second, nil
}

// runAll registers a job and waits until its n allocations have finished.
func runAll(ctx context.Context, a *cluster.Agent, job *api.Job, n int) error {
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return err
	}
	_, err := finished(ctx, a, *job.ID, n)
	return err
}
