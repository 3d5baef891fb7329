package template

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/internal/render"
)

const (
	// againLimit limits a render on demand.
	againLimit = 90 * time.Second
	// MaxDiff is the maximum size of the contents in a Diff.
	MaxDiff = 64 << 10
)

// Diff is the result of rendering one template on demand.
type Diff struct {
	Destination string // as in the job
	Changed     bool
	// Old and New are the beginnings of the contents, at most MaxDiff bytes each. Cut is set if one is longer.
	// RenderAgain leaves them empty.
	Old, New []byte
	Cut      bool
}

// RenderAgain renders all templates of the running task, also those that no data can change. Files
// that change cause their change mode.
//
// Its program ends, so nothing renews the leases of the secrets that it has read. If it has written secrets of Vault,
// the watching program begins anew. It reads them again, with leases that it renews.
func (t *Templates) RenderAgain(ctx context.Context) ([]Diff, error) {
	return t.again(ctx, true, func(r *run, e *entry, body io.Reader, size int) (Diff, error) {
		changed, err := r.write(e, body, size)
		if changed {
			r.pending.add(e)
		}
		return Diff{Destination: e.t.DestPath, Changed: changed}, err
	})
}

// CompareRender renders like RenderAgain, and returns the differences instead of writing files.
func (t *Templates) CompareRender(ctx context.Context) ([]Diff, error) {
	return t.again(ctx, false, func(r *run, e *entry, body io.Reader, _ int) (Diff, error) { return r.compare(e, body) })
}

// taker takes a rendered text.
type taker func(r *run, e *entry, body io.Reader, size int) (Diff, error)

// again runs a program of its own for all templates. writes is set if take writes files.
func (t *Templates) again(ctx context.Context, writes bool, take taker) ([]Diff, error) {
	r := t.current()
	if r == nil {
		return nil, fmt.Errorf("render the templates again: %w", t.deps.NotRunning)
	}
	if r.noStart != nil {
		return nil, &startError{r.noStart}
	}
	limited, cancel := context.WithTimeout(ctx, againLimit)
	defer cancel()
	go func() { // the confinement is valid during this start only
		select {
		case <-r.done:
			cancel()
		case <-limited.Done():
		}
	}()
	entries := r.list()
	diffs := make([]Diff, len(entries))
	var missing missingNames
	s := r.session(limited, entries)
	s.req.Once, s.req.Kept = true, false
	s.content = func(i int, body io.Reader, size int) (err error) {
		if diffs[i], err = take(r, entries[i], body, size); err != nil {
			return fmt.Errorf("%v: %w", entries[i], err)
		}
		return nil
	}
	s.other = missing.take
	vault := &asked{Handler: s.reads[render.VaultHost]}
	if vault.Handler != nil {
		s.reads[render.VaultHost] = vault
	}
	err := s.run(limited)
	if writes && vault.once.Load() && slices.ContainsFunc(diffs, func(d Diff) bool { return d.Changed }) {
		r.updated.Send()
	}
	if r.pending.hasEnv() {
		r.setEnv(ctx)
	}
	r.pending.release()
	return diffs, againError(err, &missing, entries)
}

// asked is a handler that records whether there was a request.
type asked struct {
	http.Handler
	once atomic.Bool
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.once.Store(true)
	a.Handler.ServeHTTP(w, r)
}

// againError adds names to an error.
func againError(err error, missing *missingNames, entries []*entry) error {
	var bad *failure
	switch text := missing.text(); {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return describeFailure(bad, entries)
	case text != "" && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return fmt.Errorf("render the templates again: %s: %w", text, err)
	}
	return fmt.Errorf("render the templates again: %w", err)
}

// missingNames holds the missing data that a program has reported last.
type missingNames struct{ now render.Missing }

func (m *missingNames) take(f *render.Frame) error {
	if f.Kind != render.KindMissing {
		return nil
	}
	m.now = render.Missing{}
	return f.Decode(&m.now)
}

func (m *missingNames) text() string {
	if len(m.now.Names) == 0 {
		return ""
	}
	return missingText(m.now)
}

// compare compares a rendered text with the file. It holds at most MaxDiff bytes of each.
func (r *run) compare(e *entry, body io.Reader) (Diff, error) {
	d := Diff{Destination: e.t.DestPath}
	opened, same := false, false
	err := r.open(e, func(old io.Reader) (err error) {
		opened = true
		same, err = d.fill(old, body)
		return err
	})
	if !opened { // no file, or not a regular one: everything is new
		_, err = d.fill(strings.NewReader(""), body)
	}
	d.Changed = !same
	return d, err
}

// fill reads both contents to the end, keeps their beginnings, and reports whether they are equal.
func (d *Diff) fill(old, body io.Reader) (bool, error) {
	a, b := &firstbytes.Buffer{Limit: MaxDiff}, &firstbytes.Buffer{Limit: MaxDiff}
	same, err := equal(io.TeeReader(old, a), io.TeeReader(body, b))
	d.Old, d.New, d.Cut = a.Bytes(), b.Bytes(), a.Truncated() || b.Truncated()
	return same, err
}

// equal reads two streams to their ends.
func equal(a, b io.Reader) (bool, error) {
	same := true
	x, y := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, errA := io.ReadFull(a, x)
		m, errB := io.ReadFull(b, y)
		same = same && bytes.Equal(x[:n], y[:m])
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if errA != nil && errB != nil {
			return same, nil
		}
	}
}
