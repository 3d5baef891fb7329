package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// images finds, loads, pulls and removes images.
//
//	ensure ─▶ referenced ──release of the last──▶ unused ──image_delay──▶ removed
//	              ▲────────────────ensure─────────────┘
//
// Only images that a task of this driver has used are removed, and only those that no container of the
// daemon uses. One pull of a reference serves all tasks with the same credentials that wait for it.
type images struct {
	d *Driver

	origins *origins

	mu     sync.Mutex
	pulls  map[string]*pull           // by reference and credentials
	users  map[string]map[string]bool // callers by ID of the image
	unused map[string]*time.Timer     // removals by ID of the image
	busy   map[string]chan struct{}   // by reference that a pull or a load changes; closed at its end
}

func newImages(d *Driver) *images {
	return &images{d: d, origins: newOrigins(d.cfg.Images), pulls: map[string]*pull{}, users: map[string]map[string]bool{},
		unused: map[string]*time.Timer{}, busy: map[string]chan struct{}{}}
}

// ensure returns the ID of a task's image, which the daemon then has. The task is a user of it until
// release.
func (m *images) ensure(ctx context.Context, cfg *drivers.TaskConfig, o *options) (string, error) {
	if !o.forcePull && !strings.HasSuffix(o.image, ":latest") {
		if id, err := m.local(ctx, cfg, o); id != "" || err != nil {
			m.acquire(id, cfg.ID)
			return id, err
		}
	}
	var id string
	var err error
	if o.load != "" {
		id, err = m.load(ctx, cfg, o)
	} else {
		id, err = m.pull(ctx, cfg, o)
	}
	if err != nil {
		return "", err
	}
	m.acquire(id, cfg.ID)
	return id, nil
}

// id returns the ID of an image, "" if the daemon does not have it.
func (m *images) id(ctx context.Context, ref string) (string, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	found, err := m.d.api.ImageInspect(ctx, ref)
	switch {
	case cerrdefs.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", &drivers.RecoverableError{Err: fmt.Errorf("find image %q: %w", ref, err)}
	}
	return found.ID, nil
}

// acquire makes a task a user of an image.
func (m *images) acquire(id, caller string) {
	if !m.d.set.gcImage || id == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users[id] == nil {
		m.users[id] = map[string]bool{}
	}
	m.users[id][caller] = true
	if timer := m.unused[id]; timer != nil {
		timer.Stop()
		delete(m.unused, id)
	}
}

// release ends a task's use of an image. The image is removed after a delay, if nobody uses it.
func (m *images) release(id, caller string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.users[id][caller] {
		return
	}
	delete(m.users[id], caller)
	if len(m.users[id]) > 0 {
		return
	}
	delete(m.users, id)
	m.unused[id] = time.AfterFunc(m.d.set.gcImageDelay, func() { m.removeUnused(id) })
}

// Attempts to remove an image.
const (
	removeTries = 3
	removePause = 3 * time.Second
)

// removeUnused removes an image that has no user.
func (m *images) removeUnused(id string) {
	for try := 1; ; try++ {
		m.mu.Lock()
		timer := m.unused[id]
		m.mu.Unlock()
		if timer == nil {
			return // it is used again
		}
		ctx, cancel := call(context.Background())
		_, err := m.d.api.ImageRemove(ctx, id, client.ImageRemoveOptions{PruneChildren: true})
		cancel()
		used := cerrdefs.IsConflict(err) // by a container, or under another name
		if err == nil || used || cerrdefs.IsNotFound(err) || try >= removeTries {
			m.mu.Lock()
			if m.unused[id] == timer {
				delete(m.unused, id)
			}
			m.mu.Unlock()
			m.d.log.Debug("removed an unused image", "image", id, "err", err)
			return
		}
		time.Sleep(removePause)
	}
}

// pull is a running pull of an image.
type pull struct {
	ref, auth string
	done      chan struct{} // closed when id and err are set
	id        string
	err       error
	waiters   map[string]bool // task IDs
}

// pull pulls an image, or waits for the pull that runs with the same credentials. Its first caller's time limits apply. It
// returns the ID of the image.
func (m *images) pull(ctx context.Context, cfg *drivers.TaskConfig, o *options) (string, error) {
	timeout := m.timeout(o)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	auth, err := m.auth(limited, o)
	if err != nil {
		return "", pullError(o.image, err)
	}
	m.mu.Lock()
	key := o.image + " " + auth
	p := m.pulls[key]
	if p == nil {
		p = &pull{ref: o.image, auth: auth, done: make(chan struct{}), waiters: map[string]bool{}}
		m.pulls[key] = p
		go m.run(key, p, timeout)
	}
	p.waiters[cfg.ID] = true
	m.mu.Unlock()
	m.d.event(cfg.ID, driverEvent, "Downloading image", map[string]string{"image": o.image})
	select {
	case <-p.done:
		return p.id, p.err
	case <-ctx.Done():
		return "", pullError(o.image, ctx.Err())
	}
}

// timeout returns the time limit of a pull, and of questions to a registry.
func (m *images) timeout(o *options) time.Duration {
	if o.pullTimeout > 0 {
		return o.pullTimeout
	}
	return m.d.set.pullTimeout
}

// notFound matches the error about an image that the registry does not have.
var notFound = regexp.MustCompile(`(?i)image .+ not found|manifest unknown|manifest for .+ not found`)

// pullError returns the error of a pull. The restart policy applies unless the registry does not have the image.
func pullError(ref string, err error) error {
	//lint:ignore ST1005 the text is that of Nomad
	err = fmt.Errorf("Failed to pull `%s`: %w", ref, err)
	if !notFound.MatchString(err.Error()) && !cerrdefs.IsNotFound(err) {
		err = &drivers.RecoverableError{Err: err}
	}
	return err
}

// run pulls an image for its waiters.
func (m *images) run(key string, p *pull, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	id, err := m.fetch(ctx, p)
	if err != nil {
		id, err = "", pullError(p.ref, err)
	}
	m.mu.Lock()
	delete(m.pulls, key)
	m.mu.Unlock()
	p.id, p.err = id, err
	close(p.done)
}

// fetch pulls an image, and returns its ID. Before, it records that the image is not for everyone, if it is pulled with
// credentials.
func (m *images) fetch(ctx context.Context, p *pull) (id string, err error) {
	unlock, err := m.locked(ctx, p.ref)
	if err != nil {
		return "", err
	}
	defer unlock()
	private := p.auth != ""
	old, err := m.id(ctx, p.ref)
	if err != nil {
		return "", err
	}
	if private {
		if err := m.origins.begin(p.ref, old); err != nil {
			return "", err
		}
	}
	err = m.stream(ctx, p, p.ref, p.auth)
	if err == nil {
		id, err = m.id(ctx, p.ref)
	}
	if err == nil && id == "" {
		err = fmt.Errorf("the daemon does not have the image %q after the pull", p.ref)
	}
	if rerr := m.origins.end(p.ref, old, id, private); rerr != nil {
		return "", errors.Join(err, rerr)
	}
	if err != nil {
		return "", err
	}
	m.origins.accept(repositoryOf(p.ref), id, p.auth)
	return id, nil
}

// errIdle means that the daemon reported nothing about a pull for too long.
var errIdle = errors.New("the pull made no progress within pull_activity_timeout")

// auth returns the encoded credentials for an image, "" for none.
func (m *images) auth(ctx context.Context, o *options) (string, error) {
	found, err := m.d.set.credentials(ctx, o)
	if err == nil {
		return found.encode()
	}
	if o.authSoftFail {
		m.d.log.Warn("pull an image without authentication", "image", o.image, "err", err)
		return "", nil
	}
	return "", err
}

// stream pulls an image and reports its progress to the waiters.
func (m *images) stream(ctx context.Context, p *pull, ref, auth string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	progress := newProgress()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		m.watch(ctx, p, ref, progress, cancel)
	}()
	defer func() { cancel(nil); <-watching }()
	resp, err := m.d.api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
	if err == nil {
		defer resp.Close() //nolint:errcheck // a stream that was read
		err = eachMessage(resp, progress.add)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	return err
}

// watch reports the progress of a pull, and ends one without any.
func (m *images) watch(ctx context.Context, p *pull, ref string, progress *progress, cancel context.CancelCauseFunc) {
	check, report := time.NewTicker(min(m.d.cfg.Pace.Activity, m.d.cfg.Pace.Progress)), time.Now()
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-check.C:
		}
		if progress.idle() > m.d.set.pullActivity {
			cancel(errIdle)
			return
		}
		if time.Since(report) < m.d.cfg.Pace.Progress {
			continue
		}
		report = time.Now()
		m.mu.Lock()
		waiters := slices.Sorted(maps.Keys(p.waiters))
		m.mu.Unlock()
		for _, id := range waiters {
			m.d.event(id, driverEvent, "Docker image pull progress: "+progress.String(), map[string]string{"image": ref})
		}
	}
}
