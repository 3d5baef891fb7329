// Package parse converts the job files of HTTP callers to JSON, each in a separate process.
//
// A short HCL text can expand to any amount of memory, because loops and functions multiply. No
// limit on steps or elements fits every function of the language. The kernel enforces the bounds: a
// process has maxMemory of data, maxTime of processor and wall time, and writes no files. At most
// two processes run at a time. The budget of package jobspec also applies. It refuses most hostile
// texts earlier and reports their position.
//
//	Parser ──exec(/proc/self/exe, argv[0] = entry)──▶ limits ──▶ jobspec.Parse ──▶ JSON or error text
//
// The process reads its request as JSON from standard input. It has no arguments and does not
// inherit the agent's environment. Parse starts only the goroutines of os/exec and waits for them.
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
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Bounds of one process, and of all processes.
const (
	softMemory = 192 << 20 // GOMEMLIMIT
	maxTime    = 10 * time.Second
	maxAtOnce  = 2
	maxWait    = 10 * time.Second // for one of the maxAtOnce slots
	maxOutput  = 32 << 20
	maxReport  = 4 << 10 // standard error of a failed process
)

// Parser runs the processes that parse job files.
type Parser struct{ slots chan struct{} }

// New returns a Parser.
func New() *Parser { return &Parser{slots: make(chan struct{}, maxAtOnce)} }

// Parse returns the job as JSON. Its errors carry an HTTP status.
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
	cmd := exec.CommandContext(ctx, companion.Self())
	cmd.Args, cmd.Dir = []string{entry}, "/"
	cmd.Env = []string{"GOMAXPROCS=1", fmt.Sprintf("GOMEMLIMIT=%d", softMemory)}
	cmd.WaitDelay = time.Second
	out, report := &firstbytes.Buffer{Limit: maxOutput}, &firstbytes.Buffer{Limit: maxReport}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), out, report
	err = cmd.Run()
	if err == nil && out.Truncated() {
		return nil, apierror.Errorf(http.StatusBadRequest, "the job is larger than %d MiB as JSON", maxOutput>>20)
	}
	if err != nil {
		return nil, failure(ctx, err, out.String(), report.String())
	}
	return out.Bytes(), nil
}

// take waits for a slot.
func (p *Parser) take(ctx context.Context) error {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return apierror.Errorf(http.StatusTooManyRequests, "the agent parses %d jobs already: try again later", maxAtOnce)
	}
}

// failure returns the error of a process that did not exit with status 0.
func failure(ctx context.Context, err error, out, report string) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("run a process that parses the job: %w", err)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	switch {
	case status.Exited() && status.ExitStatus() == exitInvalid:
		return apierror.Errorf(http.StatusBadRequest, "%s", out)
	case ctx.Err() == context.DeadlineExceeded, status.Signaled() &&
		(status.Signal() == syscall.SIGXCPU || status.Signal() == syscall.SIGKILL):
		return apierror.Errorf(http.StatusBadRequest, "parsing the job takes more than %v", maxTime)
	case ctx.Err() != nil:
		return ctx.Err() // the caller has canceled the request
	case strings.Contains(report, "out of memory"), strings.Contains(report, "cannot allocate memory"):
		return apierror.Errorf(http.StatusBadRequest, "parsing the job takes more than %d MiB of memory", maxMemory>>20)
	}
	first, _, _ := strings.Cut(report, "\n")
	return fmt.Errorf("the process that parses the job: %w: %s", err, first)
}
