// Package images brings images to the daemon of a node, and removes those that no task uses any more.
//
//	Ensure: local image ─┬─ of everyone, or of the job ─▶ its ID
//	                     ├─ pulled with credentials ──▶ the registry confirms those of the task ─▶ its ID
//	                     └─ missing, or of another job ─▶ pull, or load of an archive ─▶ its ID
//
// An image that the daemon has may have been brought by a task of another namespace. Records of origins, a file for each
// repository, have for whom (origins.go). An archive is checked and copied by package imagearchive: the daemon never
// reads one that a task can change. Credentials come from the task, a file or a helper program (auth.go), and are in no
// error and no record.
//
// One pull of a reference serves all tasks with the same credentials that wait for it. Its progress is reported as events
// of these tasks. Goroutines: two for each pull, and a timer for each unused image.
package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Config configures a Store.
type Config struct {
	API    *client.Client
	Plugin *config.Plugin
	// Dir is for the records of origins and for copies of archives. It is created with mode 0700. The instances of an agent
	// share it.
	Dir                string
	Progress, Activity time.Duration // between two events about a pull, and between two checks of it
	Log                *slog.Logger
	Event              func(task, message string, details map[string]string)
}

// Limits of calls to the daemon.
const (
	queryTimeout  = 10 * time.Second
	removeTimeout = 5 * time.Minute
)

// Store finds, loads, pulls and removes images.
//
//	Ensure ─▶ referenced ──Release of the last──▶ unused ──image_delay──▶ removed
//	              ▲────────────────Ensure─────────────┘
//
// Only images that a task of this driver has used are removed, and only those that no container of the
// daemon uses. One pull of a reference serves all tasks with the same credentials that wait for it.
type Store struct {
	cfg     Config
	origins *origins

	mu     sync.Mutex
	pulls  map[string]*pull           // by reference and credentials
	users  map[string]map[string]bool // callers by ID of the image
	unused map[string]*time.Timer     // removals by ID of the image
	busy   map[string]chan struct{}   // by reference that a pull or a load changes; closed at its end
}

// New returns the images of a daemon.
func New(cfg Config) *Store {
	return &Store{cfg: cfg, origins: newOrigins(cfg.Dir), pulls: map[string]*pull{}, users: map[string]map[string]bool{},
		unused: map[string]*time.Timer{}, busy: map[string]chan struct{}{}}
}

// Ensure returns the ID of a task's image, which the daemon then has. The task is a user of it until
// Release.
func (m *Store) Ensure(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task) (string, error) {
	if !o.ForcePull && !strings.HasSuffix(o.Image, ":latest") {
		if id, err := m.local(ctx, cfg, o); id != "" || err != nil {
			m.Acquire(id, cfg.ID)
			return id, err
		}
	}
	var id string
	var err error
	if o.Load != "" {
		id, err = m.load(ctx, cfg, o)
	} else {
		id, err = m.pull(ctx, cfg, o)
	}
	if err != nil {
		return "", err
	}
	m.Acquire(id, cfg.ID)
	return id, nil
}

// id returns the ID of an image, "" if the daemon does not have it.
func (m *Store) id(ctx context.Context, ref string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	found, err := m.cfg.API.ImageInspect(ctx, ref)
	switch {
	case cerrdefs.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", &drivers.RecoverableError{Err: fmt.Errorf("find image %q: %w", ref, err)}
	}
	return found.ID, nil
}

// Acquire makes a task a user of an image.
func (m *Store) Acquire(id, caller string) {
	if !m.cfg.Plugin.GCImage || id == "" {
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

// Release ends a task's use of an image. The image is removed after a delay, if nobody uses it.
func (m *Store) Release(id, caller string) {
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
	m.unused[id] = time.AfterFunc(m.cfg.Plugin.GCImageDelay, func() { m.removeUnused(id) })
}

// Attempts to remove an image.
const (
	removeTries = 3
	removePause = 3 * time.Second
)

// removeUnused removes an image that has no user.
func (m *Store) removeUnused(id string) {
	for try := 1; ; try++ {
		m.mu.Lock()
		timer := m.unused[id]
		m.mu.Unlock()
		if timer == nil {
			return // it is used again
		}
		ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
		_, err := m.cfg.API.ImageRemove(ctx, id, client.ImageRemoveOptions{PruneChildren: true})
		cancel()
		used := cerrdefs.IsConflict(err) // by a container, or under another name
		if err == nil || used || cerrdefs.IsNotFound(err) || try >= removeTries {
			m.mu.Lock()
			if m.unused[id] == timer {
				delete(m.unused, id)
			}
			m.mu.Unlock()
			m.cfg.Log.Debug("removed an unused image", "image", id, "err", err)
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
func (m *Store) pull(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task) (string, error) {
	timeout := m.timeout(o)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	auth, err := m.auth(limited, o)
	if err != nil {
		return "", pullError(o.Image, err)
	}
	m.mu.Lock()
	key := o.Image + " " + auth
	p := m.pulls[key]
	if p == nil {
		p = &pull{ref: o.Image, auth: auth, done: make(chan struct{}), waiters: map[string]bool{}}
		m.pulls[key] = p
		go m.run(key, p, timeout)
	}
	p.waiters[cfg.ID] = true
	m.mu.Unlock()
	m.cfg.Event(cfg.ID, "Downloading image", map[string]string{"image": o.Image})
	select {
	case <-p.done:
		return p.id, p.err
	case <-ctx.Done():
		return "", pullError(o.Image, ctx.Err())
	}
}

// timeout returns the time limit of a pull, and of questions to a registry.
func (m *Store) timeout(o *config.Task) time.Duration {
	if o.PullTimeout > 0 {
		return o.PullTimeout
	}
	return m.cfg.Plugin.PullTimeout
}

// notFound matches the error about an image that the registry does not have.
var notFound = pattern.Lazy(`(?i)image .+ not found|manifest unknown|manifest for .+ not found`)

// pullError returns the error of a pull. The restart policy applies unless the registry does not have the image.
func pullError(ref string, err error) error {
	//lint:ignore ST1005 the text is that of Nomad
	err = fmt.Errorf("Failed to pull `%s`: %w", ref, err)
	if !notFound().MatchString(err.Error()) && !cerrdefs.IsNotFound(err) {
		err = &drivers.RecoverableError{Err: err}
	}
	return err
}

// run pulls an image for its waiters.
func (m *Store) run(key string, p *pull, timeout time.Duration) {
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
func (m *Store) fetch(ctx context.Context, p *pull) (id string, err error) {
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
	err = m.stream(ctx, p)
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
func (m *Store) auth(ctx context.Context, o *config.Task) (string, error) {
	found, err := credentialsOf(ctx, m.cfg.Plugin, o)
	if err == nil {
		return encode(found)
	}
	if o.AuthSoftFail {
		m.cfg.Log.Warn("pull an image without authentication", "image", o.Image, "err", err)
		return "", nil
	}
	return "", err
}

// stream pulls an image and reports its progress to the waiters.
func (m *Store) stream(ctx context.Context, p *pull) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	progress := newProgress()
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		m.watch(ctx, p, progress, cancel)
	}()
	defer func() { cancel(nil); <-watching }()
	resp, err := m.cfg.API.ImagePull(ctx, p.ref, client.ImagePullOptions{RegistryAuth: p.auth})
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
func (m *Store) watch(ctx context.Context, p *pull, progress *progress, cancel context.CancelCauseFunc) {
	check, report := time.NewTicker(min(m.cfg.Activity, m.cfg.Progress)), time.Now()
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-check.C:
		}
		if progress.idle() > m.cfg.Plugin.PullActivity {
			cancel(errIdle)
			return
		}
		if time.Since(report) < m.cfg.Progress {
			continue
		}
		report = time.Now()
		m.mu.Lock()
		waiters := slices.Sorted(maps.Keys(p.waiters))
		m.mu.Unlock()
		for _, id := range waiters {
			m.cfg.Event(id, "Docker image pull progress: "+progress.String(), map[string]string{"image": p.ref})
		}
	}
}
