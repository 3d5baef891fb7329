package template

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// Limits of restarting a program that has died.
const (
	restartBackoff    = time.Second
	restartBackoffMax = time.Minute
	// firstDeaths is how often the program may die before the first render.
	firstDeaths = 3
)

// run is the rendering during one start of the task.
type run struct {
	t        *Templates
	s        Start
	confined *Confinement // nil with noStart
	noStart  error        // why no program can be started
	report   *reporter
	exec     Exec          // set before started is closed
	started  chan struct{} // closed when the process runs
	complete chan struct{} // closed after the first complete render
	first    chan error    // the result of the first complete render, once, buffered
	updated  wake.Signal   // entries or token are new, or there was a new login to Vault
	pending  *pending      // changes whose change mode is due
	done     chan struct{} // closed when loop has returned

	mu      sync.Mutex
	entries []*entry
	token   idtoken.Token
	login   string // the secret of the last token of Vault
	// begun is set when Begin no longer waits for the first render: later changes and errors concern a process.
	begun bool
}

// newRun makes the run of a start the current one.
func (t *Templates) newRun(s Start, entries []*entry) *run {
	t.restore(s.State)
	r := &run{
		t: t, s: s, entries: entries, token: s.Token, begun: s.Running, report: newReporter(t.deps.Task, t.deps.Labels),
		started: make(chan struct{}), complete: make(chan struct{}), first: make(chan error, 1), updated: wake.New(), pending: newPending(),
		done: make(chan struct{}),
	}
	r.confined, r.noStart = s.Confine()
	r.setLogin()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run = r
	return r
}

// awaitFirst waits for the first complete render, or for a short time if all files have content.
func (r *run) awaitFirst(ctx context.Context) error {
	var over <-chan time.Time
	if r.s.Running {
		return nil
	}
	if r.allKept(r.entries) {
		timer := time.NewTimer(waitKept)
		defer timer.Stop()
		over = timer.C
	}
	var err error
	select {
	case err = <-r.first:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
	select {
	case late := <-r.first: // between the end of the wait and now
		err = errors.Join(err, late)
	default:
	}
	return err
}

// loop runs the program, again after it has died, until ctx ends.
func (r *run) loop(ctx context.Context) {
	defer close(r.done)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { r.report.run(ctx) })
	work.Go(func() { r.applyChanges(ctx) })
	work.Go(func() { r.followLogins(ctx) })
	todo := r.todo()
	if r.s.All {
		todo = r.list()
	}
	for deaths := 0; ctx.Err() == nil; todo = r.todo() {
		begun := time.Now()
		err := r.program(ctx, todo)
		if errors.Is(err, errUpdated) || time.Since(begun) > restartBackoffMax {
			deaths = 0
		}
		if err != nil && !errors.Is(err, errUpdated) && ctx.Err() == nil {
			deaths++
			if r.handle(ctx, err, deaths) {
				r.waitToRestart(ctx, err, deaths)
				continue
			}
		}
		if err == nil {
			r.report.alive()
			r.succeed()
		}
		if !errors.Is(err, errUpdated) {
			r.waitForUpdate(ctx, forever)
			continue
		}
		r.report.replaced()
	}
}

// followLogins ends the program after each new login to Vault. The next one reads all secrets anew.
func (r *run) followLogins(ctx context.Context) {
	if r.t.deps.VaultLogins == nil {
		return
	}
	tokens, stop := r.t.deps.VaultLogins()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-tokens:
			if r.loggedIn(t.Secret.Reveal()) {
				r.updated.Send()
			}
		}
	}
}

// setLogin records the current token of Vault, before a program begins.
func (r *run) setLogin() {
	if current := r.t.deps.VaultToken.Current; current != nil {
		secret, _ := current()
		r.loggedIn(secret)
	}
}

// loggedIn records the secret of a token of Vault. It reports whether it is another one.
func (r *run) loggedIn(secret string) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, r.login = r.login != secret, secret
	return changed
}

// forever is longer than any start of a task.
const forever = 100 * 365 * 24 * time.Hour

// waitForUpdate waits for new templates, a new token or a new login, at most for d.
func (r *run) waitForUpdate(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.updated:
	case <-timer.C:
	}
}

// waitToRestart waits before a program that has died is started again. Then it reports the death of a program of a
// running task. It does so after the wait, because the end of a task kills its programs too, and is seen later.
func (r *run) waitToRestart(ctx context.Context, death error, deaths int) {
	begun := r.isBegun()
	r.waitForUpdate(ctx, restartDelay(deaths))
	if begun && ctx.Err() == nil {
		r.report.died(death)
	}
}

// restartDelay returns the delay before a program that has died n times is started again.
func restartDelay(n int) time.Duration {
	return min(restartBackoff<<min(n-1, 10), restartBackoffMax)
}

// todo returns the entries without a file, and those whose data can change.
func (r *run) todo() []*entry {
	return slices.DeleteFunc(r.list(), func(e *entry) bool { return r.t.keptAs(e.hash) == static && r.exists(e) })
}

// errUpdated ends a program whose request is outdated.
var errUpdated = errors.New("the templates were updated")

// program runs the program once for the entries.
func (r *run) program(ctx context.Context, todo []*entry) error {
	if len(todo) == 0 {
		return nil
	}
	if r.noStart != nil {
		return &startError{r.noStart}
	}
	r.reportConfinement()
	r.setLogin()
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-r.updated:
			cancel(errUpdated)
		case <-running.Done():
		}
	}()
	err := r.session(running, todo).run(running)
	r.pending.release() // also of a pass that did not end
	var bad *failure
	switch {
	case !errors.As(err, &bad):
	case bad.Memory && r.isBegun():
		// The control group can also end the program before it notices. The task must not depend on which comes first.
		err = fmt.Errorf("the program that renders templates ended: %w", bad)
	default:
		err = &templateError{describeFailure(bad, todo)}
	}
	if cause := context.Cause(running); errors.Is(cause, errUpdated) {
		err = errUpdated
	}
	cancel(nil)
	<-watched
	return err
}

// update replaces the templates, and the token unless it is zero.
func (r *run) update(templates []*nomad.Template, token idtoken.Token) {
	entries, err := r.t.resolve(templates, r.s.Env, r.s.Dir)
	if err != nil {
		r.report.message(fmt.Sprintf("the update of the templates is not used: %v", err))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	same := slices.EqualFunc(entries, r.entries, func(a, b *entry) bool { return a.hash == b.hash && a.wait == b.wait })
	r.entries = entries // with new change modes
	if !token.IsZero() && token.Reveal() != r.token.Reveal() {
		r.token, same = token, false
	}
	if same {
		return
	}
	r.updated.Send()
}

// reportConfinement emits who confines the program, once per task.
func (r *run) reportConfinement() {
	r.t.mu.Lock()
	before := r.t.reported
	r.t.reported = true
	r.t.mu.Unlock()
	if !before {
		r.t.deps.Task.Emit(&nomad.TaskEvent{Type: nomad.TaskTemplate, Message: "Rendering templates, confined by " + r.confined.By})
	}
}

func (r *run) isBegun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// list returns the entries.
func (r *run) list() []*entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

func (r *run) currentToken() idtoken.Token {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

func (r *run) allKept(entries []*entry) bool {
	return !slices.ContainsFunc(entries, func(e *entry) bool { return r.t.keptAs(e.hash) == "" || !r.exists(e) })
}
