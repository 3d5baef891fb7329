// Package parse turns job files of HTTP callers into JSON, each in a process of its own.
//
// A short HCL text can stand for any amount of memory: loops and functions multiply. No
// count of steps or elements is right for every function of the language, so the kernel
// holds the bounds: a process has maxMemory of data and maxTime of processor and wall
// time, and writes no files. Two run at a time. The budget of package jobspec still applies
// inside, and refuses most hostile texts earlier and with their place.
//
//	Parser ──exec(/proc/self/exe, argv[0] = entry)──▶ limits ──▶ jobspec.Parse ──▶ JSON or error text
//
// The process gets its request as JSON on standard input, and has no arguments and none of
// the agent's environment. Goroutines: those of os/exec, ended when Parse returns.
package parse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of one process, and of all.
const (
	softMemory = 192 << 20 // from here on the collector works hard
	maxTime    = 10 * time.Second
	maxAtOnce  = 2
	maxWait    = 10 * time.Second // for one of the maxAtOnce
	maxOutput  = 32 << 20
	maxReport  = 4 << 10 // of a process that failed
)

// Parser runs the processes.
type Parser struct{ slots chan struct{} }

// New returns a parser.
func New() *Parser { return &Parser{slots: make(chan struct{}, maxAtOnce)} }

// Parse returns the job of the text as JSON. Its errors carry an HTTP status.
func (p *Parser) Parse(ctx context.Context, r *api.JobsParseRequest) ([]byte, error) {
	request, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	if err := p.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-p.slots }()
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args, cmd.Dir = []string{entry}, "/"
	cmd.Env = []string{"GOMAXPROCS=1", fmt.Sprintf("GOMEMLIMIT=%d", softMemory)}
	cmd.WaitDelay = time.Second
	out, report := &bounded{left: maxOutput}, &bounded{left: maxReport}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), out, report
	err = cmd.Run()
	if err == nil && out.full {
		return nil, nomad.Errorf(http.StatusBadRequest, "the job is larger than %d MiB as JSON", maxOutput>>20)
	}
	if err != nil {
		return nil, failure(ctx, err, out.String(), report.String())
	}
	return out.Bytes(), nil
}

// take waits until fewer than maxAtOnce processes run.
func (p *Parser) take(ctx context.Context) error {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nomad.Errorf(http.StatusTooManyRequests, "the agent parses %d jobs already: try again later", maxAtOnce)
	}
}

// failure is the error of a process that did not exit with 0.
func failure(ctx context.Context, err error, out, report string) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("run a process that parses the job: %w", err)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	switch {
	case status.Exited() && status.ExitStatus() == exitInvalid:
		return nomad.Errorf(http.StatusBadRequest, "%s", out)
	case ctx.Err() == context.DeadlineExceeded, status.Signaled() && (status.Signal() == syscall.SIGXCPU || status.Signal() == syscall.SIGKILL):
		return nomad.Errorf(http.StatusBadRequest, "parsing the job takes more than %v", maxTime)
	case ctx.Err() != nil:
		return ctx.Err() // the caller is gone
	case strings.Contains(report, "out of memory"), strings.Contains(report, "cannot allocate memory"):
		return nomad.Errorf(http.StatusBadRequest, "parsing the job takes more than %d MiB of memory", maxMemory>>20)
	}
	first, _, _ := strings.Cut(report, "\n")
	return fmt.Errorf("the process that parses the job: %w: %s", err, first)
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	bytes.Buffer
	left int
	full bool // more was written
}

// Write never fails: the writer is not to be held up.
func (b *bounded) Write(p []byte) (int, error) {
	kept := p[:min(len(p), b.left)]
	b.left -= len(kept)
	b.full = b.full || len(kept) < len(p)
	b.Buffer.Write(kept)
	return len(p), nil
}
