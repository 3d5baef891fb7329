// Package engine is the program that renders the templates of a task (internal/render has its
// protocol). The client runs it with the confinement of the task, so that a template can reach
// nothing that the task cannot reach. It only evaluates: it has no writable path, and the client
// writes the files.
//
//	         ┌───────────── data changed, wait elapsed ─────────────┐
//	         ▼                                                      │
//	load ─▶ pass ─── complete, nothing can change ──▶ done          │
//	         └── data missing, or can change ──▶ watch ─────────────┘
//
// A pass evaluates the templates whose data has changed, with the template library of consul-template. The
// functions that read data are in functions.go. They use only the Task API socket, with the task's token, and
// the directories of the request. With Request.Consul, the functions of Consul are those of the library, and its queries
// use the connection to the agent's proxy (remote.go, socket.go). With Request.Vault, the functions of Vault do the same
// (vault.go, vaultsocket.go); lease.go decides when a secret is read again. The data that a template has asked for is watched: variables with blocking
// queries, files by their size and time.
//
// Goroutines: run owns all state. Each watched piece of data has a goroutine that sends to it. An
// evaluation has a goroutine, for which run waits, so it may use the state.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/sidecar"
)

func init() { companion.Register(sidecar.Render, program) }

// maxRequest is the maximum size of a request.
const maxRequest = 64 << 20

// program is the entry: it reads the request from stdin and runs until stdin is closed.
func program() int {
	out := render.NewWriter(os.Stdout)
	os.Stdout = os.Stderr // some functions print, and stdout is for frames
	log.SetOutput(io.Discard)
	os.Clearenv() // the library reads it, for functions and for the address of Consul
	in := io.LimitReader(os.Stdin, maxRequest)
	var req render.Request
	dec := json.NewDecoder(in)
	if err := dec.Decode(&req); err != nil {
		return report(out, &fault{template: -1, text: "the request is malformed"})
	}
	if req.Reads() {
		os.Stdout = nil // descriptor 2 is the connection to the agent, and nothing may be printed there
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is the only message
		cancel()
	}()
	return report(out, run(ctx, &req, out))
}

// report sends the last frame and returns the exit status.
func report(out *render.Writer, err error) int {
	var f *fault
	switch {
	case err == nil:
		err = out.Message(render.KindDone, nil)
	case errors.As(err, &f):
		err = errors.Join(out.Message(render.KindFatal, f.frame()), err)
	}
	if err != nil {
		return 1
	}
	return 0
}

// engine holds the state of a run.
type engine struct {
	req       *render.Request
	out       *render.Writer
	files     *files
	items     []*item
	data      map[key]*datum
	api       *client
	consul    *consulReader // nil without Consul
	vault     *vaultReader  // nil without Vault
	readings  chan reading
	complete  bool // every template has been rendered
	missing   render.Missing
	inOutage  bool
	evaluated *item // during an evaluation
}

// run renders until nothing can change, ctx ends or a template fails.
func run(ctx context.Context, req *render.Request, out *render.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e := &engine{req: req, out: out, data: map[key]*datum{}, api: newClient(req), readings: make(chan reading)}
	if err := e.connect(ctx); err != nil {
		return &fault{template: -1, text: err.Error()}
	}
	if err := e.load(); err != nil {
		return err
	}
	for {
		if err := e.pass(); err != nil {
			return err
		}
		e.watch(ctx)
		if e.complete && (req.Once || !e.anyLive()) {
			return nil
		}
		if err := e.await(ctx); err != nil {
			return err
		}
	}
}

// connect opens the directories, and the connection to the agent if the request has one.
func (e *engine) connect(ctx context.Context) (err error) {
	if e.files, err = openFiles(e.req); err != nil || !e.req.Reads() {
		return err
	}
	agent, err := agentConn(ctx)
	if err != nil {
		return err
	}
	if e.req.Consul != nil {
		if e.consul, err = newConsulReader(e.req, agent); err != nil {
			return err
		}
	}
	if e.req.Vault != nil {
		e.vault = newVaultReader(e.req, e.files, agent)
	}
	return nil
}

// load reads the texts of the templates.
func (e *engine) load() error {
	for i, spec := range e.req.Templates {
		text := []byte(spec.Text)
		if spec.Text == "" && spec.Source != "" {
			var err error
			if text, err = e.files.read(spec.Source); err != nil {
				return &fault{template: i, text: fmt.Sprintf("read source: %v", err)}
			}
		}
		e.items = append(e.items, &item{index: i, spec: spec, text: string(text), due: time.Now()})
	}
	return nil
}

// pass evaluates the templates that are due, and sends what has changed.
func (e *engine) pass() error {
	now, sent, evaluated := time.Now(), false, false
	for _, it := range e.items {
		if it.due.IsZero() || it.due.After(now) {
			continue
		}
		evaluated = true
		changed, err := e.render(it)
		if err != nil {
			return err
		}
		sent = sent || changed
	}
	complete := !slices.ContainsFunc(e.items, func(it *item) bool { return !it.rendered })
	if sent || complete && !e.complete {
		e.complete = e.complete || complete
		pass := render.Pass{Complete: e.complete, Live: e.live()}
		if err := e.out.Message(render.KindPass, pass); err != nil {
			return err
		}
	}
	if evaluated {
		debug.FreeOSMemory() // it may be long until the next evaluation
	}
	return e.sendMissing()
}

// render evaluates a template and sends its text if it has changed.
func (e *engine) render(it *item) (changed bool, err error) {
	it.due, it.since = time.Time{}, time.Time{}
	text, err := e.evaluate(it)
	if err != nil || len(it.missing) > 0 {
		return false, err
	}
	if sum := hash(text); !it.rendered || sum != it.sum {
		it.sum, changed = sum, true
		if err := e.out.Content(it.index, text); err != nil {
			return false, err
		}
	}
	it.rendered = true
	return changed, nil
}

// live returns the indexes of the templates that can change.
func (e *engine) live() (out []int) {
	for _, it := range e.items {
		if it.live() {
			out = append(out, it.index)
		}
	}
	return out
}

func (e *engine) anyLive() bool { return len(e.live()) > 0 }

// sendMissing sends the names of missing data if they have changed.
func (e *engine) sendMissing() error {
	var names []string
	for _, it := range e.items {
		for _, k := range it.missing {
			names = append(names, k.String())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	first := names[:min(len(names), render.MaxNames)]
	m := render.Missing{Names: first, More: len(names) - len(first)}
	if m.More == e.missing.More && slices.Equal(m.Names, e.missing.Names) {
		return nil
	}
	e.missing = m
	return e.out.Message(render.KindMissing, m)
}

// await waits until a template is due, and takes readings meanwhile.
func (e *engine) await(ctx context.Context) error {
	for {
		wait := e.nextDue()
		if wait == 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case n := <-e.readings:
			timer.Stop()
			if err := e.take(n); err != nil {
				return err
			}
		case <-timer.C:
		}
	}
}

// forever is longer than any run.
const forever = 100 * 365 * 24 * time.Hour

// nextDue returns how long it is until a template is due.
func (e *engine) nextDue() time.Duration {
	wait := forever
	for _, it := range e.items {
		if !it.due.IsZero() {
			wait = min(wait, max(time.Until(it.due), 0))
		}
	}
	return wait
}
