package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
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
// daemon uses. One pull of a reference serves all tasks that wait for it.
type images struct {
	d *Driver

	mu     sync.Mutex
	pulls  map[string]*pull           // by reference
	users  map[string]map[string]bool // callers by ID of the image
	unused map[string]*time.Timer     // removals by ID of the image
}

func newImages(d *Driver) *images {
	return &images{d: d, pulls: map[string]*pull{}, users: map[string]map[string]bool{}, unused: map[string]*time.Timer{}}
}

// ensure returns the ID of a task's image, which the daemon then has. The task is a user of it until
// release.
func (m *images) ensure(ctx context.Context, cfg *drivers.TaskConfig, o *options) (string, error) {
	if id, ok := m.local(ctx, o); ok {
		m.acquire(id, cfg.ID)
		return id, nil
	}
	if o.load != "" {
		if err := m.load(ctx, cfg, o.load); err != nil {
			return "", err
		}
	} else if err := m.pull(ctx, cfg, o); err != nil {
		return "", err
	}
	id, err := m.id(ctx, o.image)
	if err != nil {
		return "", &drivers.RecoverableError{Err: fmt.Errorf("find image %q: %w", o.image, err)}
	}
	m.acquire(id, cfg.ID)
	return id, nil
}

// local returns the ID of an image that the daemon has, unless the task wants a newer one.
func (m *images) local(ctx context.Context, o *options) (string, bool) {
	if o.forcePull || strings.HasSuffix(o.image, ":latest") {
		return "", false
	}
	id, err := m.id(ctx, o.image)
	return id, err == nil
}

// id returns the ID of an image.
func (m *images) id(ctx context.Context, ref string) (string, error) {
	ctx, cancel := look(ctx)
	defer cancel()
	found, err := m.d.api.ImageInspect(ctx, ref)
	return found.ID, err
}

// load loads an archive in the task's local directory.
func (m *images) load(ctx context.Context, cfg *drivers.TaskConfig, name string) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("unable to open image archive: %q is not inside the task's local directory", name)
	}
	at, err := openExisting(cfg.LocalDir, name)
	if err != nil {
		return fmt.Errorf("unable to open image archive: %w", err)
	}
	defer at.Close() //nolint:errcheck // opened with O_PATH
	f, err := readable(at)
	if err != nil {
		return fmt.Errorf("unable to open image archive: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	ctx, cancel := context.WithTimeout(ctx, m.d.set.pullTimeout)
	defer cancel()
	result, err := m.d.api.ImageLoad(ctx, f)
	if err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("load image archive %s: %w", name, err)}
	}
	defer result.Close() //nolint:errcheck // a stream that was read
	if err := eachMessage(result, func(message) {}); err != nil {
		return fmt.Errorf("load image archive %s: %w", name, err)
	}
	return nil
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
	done    chan struct{} // closed when err is set
	err     error
	waiters map[string]bool // task IDs
}

// pull pulls an image, or waits for the pull that runs. Its first caller's authentication and time
// limits apply.
func (m *images) pull(ctx context.Context, cfg *drivers.TaskConfig, o *options) error {
	m.mu.Lock()
	p := m.pulls[o.image]
	if p == nil {
		timeout := m.d.set.pullTimeout
		if o.pullTimeout > 0 {
			timeout = o.pullTimeout
		}
		p = &pull{done: make(chan struct{}), waiters: map[string]bool{}}
		m.pulls[o.image] = p
		go m.run(p, o, timeout)
	}
	p.waiters[cfg.ID] = true
	m.mu.Unlock()
	m.d.event(cfg.ID, driverEvent, "Downloading image", map[string]string{"image": o.image})
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		//lint:ignore ST1005 the text is that of Nomad
		return &drivers.RecoverableError{Err: fmt.Errorf("Failed to pull `%s`: %w", o.image, ctx.Err())}
	}
}

// notFound matches the error about an image that the registry does not have.
var notFound = regexp.MustCompile(`(?i)image .+ not found|manifest unknown|manifest for .+ not found`)

// run pulls an image for its waiters.
func (m *images) run(p *pull, o *options, timeout time.Duration) {
	err := m.fetch(p, o, timeout)
	if err != nil {
		//lint:ignore ST1005 the text is that of Nomad
		err = fmt.Errorf("Failed to pull `%s`: %w", o.image, err)
		if !notFound.MatchString(err.Error()) && !cerrdefs.IsNotFound(err) {
			err = &drivers.RecoverableError{Err: err}
		}
	}
	m.mu.Lock()
	delete(m.pulls, o.image)
	m.mu.Unlock()
	p.err = err
	close(p.done)
}

// errIdle means that the daemon reported nothing about a pull for too long.
var errIdle = errors.New("the pull made no progress within pull_activity_timeout")

func (m *images) fetch(p *pull, o *options, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	auth, err := m.auth(ctx, o)
	if err != nil {
		return err
	}
	return m.stream(ctx, p, o.image, auth)
}

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
		waiters := sortedKeys(p.waiters)
		m.mu.Unlock()
		for _, id := range waiters {
			m.d.event(id, driverEvent, "Docker image pull progress: "+progress.String(), map[string]string{"image": ref})
		}
	}
}
