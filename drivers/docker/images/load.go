package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/distribution/reference"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/drivers/docker/files"
	"github.com/open-nomad/open-nomad/drivers/docker/imagearchive"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// repositoryOf returns the repository of a normalized reference.
func repositoryOf(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return named.Name()
}

// locked waits until no other pull or load of the agent changes the reference.
func (m *Store) locked(ctx context.Context, ref string) (unlock func(), err error) {
	for {
		m.mu.Lock()
		busy := m.busy[ref]
		if busy == nil {
			done := make(chan struct{})
			m.busy[ref] = done
			m.mu.Unlock()
			return func() {
				m.mu.Lock()
				delete(m.busy, ref)
				m.mu.Unlock()
				close(done)
			}, nil
		}
		m.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// local returns the ID of an image that the daemon has and that the task can use, "" if there is none. An image that
// another job has loaded is not the image of the registry.
func (m *Store) local(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task) (string, error) {
	id, err := m.id(ctx, o.Image)
	if id == "" || err != nil {
		return "", err
	}
	who, err := m.origins.use(o.Image, id, cfg)
	if err != nil {
		return "", &drivers.RecoverableError{Err: err}
	}
	switch who {
	case useAll, useOwn:
		return id, nil
	case usePrivate:
		if err := m.prove(ctx, o, id); err != nil {
			return "", err
		}
		return id, nil
	}
	return "", nil
}

// prove asks the registry whether the task's credentials are accepted for an image that the daemon has, once for each
// image and credentials.
func (m *Store) prove(ctx context.Context, o *config.Task, id string) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout(o))
	defer cancel()
	auth, err := m.auth(ctx, o)
	if err != nil {
		return pullError(o.Image, err)
	}
	repo := repositoryOf(o.Image)
	if m.origins.isAccepted(repo, id, auth) {
		return nil
	}
	found, err := m.cfg.API.ImageInspect(ctx, id)
	if err != nil {
		return pullError(o.Image, err)
	}
	for _, digest := range found.RepoDigests {
		named, perr := reference.ParseNormalizedNamed(digest)
		if perr != nil || named.Name() != repo {
			continue
		}
		if _, err = m.cfg.API.DistributionInspect(ctx, digest, client.DistributionInspectOptions{EncodedRegistryAuth: auth}); err == nil {
			m.origins.accept(repo, id, auth)
			return nil
		}
	}
	if err == nil {
		err = errors.New("the image has no digest of the registry: set force_pull")
	}
	return pullError(o.Image, fmt.Errorf("the node has the image, which was pulled with credentials; "+
		"the registry does not confirm those of this task: %w", err))
}

// load loads an archive in the task's local directory, and returns the ID of its image.
func (m *Store) load(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Plugin.PullTimeout)
	defer cancel()
	copied, image, err := m.check(ctx, cfg, o)
	if err != nil {
		return "", err
	}
	defer copied.Close() //nolint:errcheck // it has no name
	unlock, err := m.locked(ctx, o.Image)
	if err != nil {
		return "", &drivers.RecoverableError{Err: err}
	}
	defer unlock()
	if id, err := m.present(ctx, cfg, o, image.ID); id != "" || err != nil {
		return id, err
	}
	if err := m.origins.loaded(o.Image, "", cfg); err != nil {
		return "", &drivers.RecoverableError{Err: err}
	}
	if err := m.send(ctx, o, copied); err != nil {
		if id, gone := m.id(context.WithoutCancel(ctx), o.Image); id == "" && gone == nil {
			err = errors.Join(err, m.origins.notLoaded(o.Image))
		}
		return "", err
	}
	return m.loadedImage(ctx, cfg, o, image)
}

// send lets the daemon load an archive.
func (m *Store) send(ctx context.Context, o *config.Task, archive *os.File) error {
	result, err := m.cfg.API.ImageLoad(ctx, archive)
	if err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("load image archive %s: %w", o.Load, err)}
	}
	defer result.Close() //nolint:errcheck // a stream that was read
	if err := eachMessage(result, func(message) {}); err != nil {
		return fmt.Errorf("load image archive %s: %w", o.Load, err)
	}
	return nil
}

// present returns the ID of the image of an archive if the daemon has it under the task's name. It returns an error if
// the name belongs to another image.
func (m *Store) present(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task, want string) (string, error) {
	old, err := m.id(ctx, o.Image)
	if old == "" || err != nil {
		return "", err
	}
	who, err := m.origins.use(o.Image, old, cfg)
	switch {
	case err != nil:
		return "", &drivers.RecoverableError{Err: err}
	case old == want:
		return old, nil // the archive contains all of it
	case who == useOwn:
		return "", nil // an earlier version of the same job
	}
	return "", fmt.Errorf("load image archive %s: the node has another image called %s: give the image of the archive another name",
		o.Load, o.Image)
}

// loadedImage returns the ID of the image that was loaded. A daemon that keeps images in containerd gives it an ID of its own.
func (m *Store) loadedImage(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task, image *imagearchive.Image) (string, error) {
	limited, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	found, err := m.cfg.API.ImageInspect(limited, o.Image)
	if err != nil {
		return "", &drivers.RecoverableError{Err: fmt.Errorf("find image %q: %w", o.Image, err)}
	}
	if found.ID != image.ID && !slices.Equal(found.RootFS.Layers, image.Layers) {
		return "", fmt.Errorf("load image archive %s: the daemon reports another image called %s", o.Load, o.Image)
	}
	if err := m.origins.loaded(o.Image, found.ID, cfg); err != nil {
		return "", &drivers.RecoverableError{Err: err}
	}
	return found.ID, nil
}

// check copies the archive of a task to a file without a name, and returns it with the image. The archive has no other
// image, and no other name for it.
func (m *Store) check(ctx context.Context, cfg *drivers.TaskConfig, o *config.Task) (copied *os.File,
	image *imagearchive.Image, err error) {
	if !filepath.IsLocal(o.Load) {
		return nil, nil, fmt.Errorf("unable to open image archive: %q is not inside the task's local directory", o.Load)
	}
	at, err := files.Existing(cfg.LocalDir, o.Load)
	if err != nil {
		return nil, nil, fmt.Errorf("unable to open image archive: %w", err)
	}
	defer at.Close() //nolint:errcheck // opened with O_PATH
	f, err := files.Readable(at)
	if err != nil {
		return nil, nil, fmt.Errorf("unable to open image archive: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	if copied, err = m.nameless(); err != nil {
		return nil, nil, &drivers.RecoverableError{Err: fmt.Errorf("copy image archive %s: %w", o.Load, err)}
	}
	if image, err = imagearchive.Copy(ctx, f, &reserving{File: copied}, o.Image); err == nil {
		_, err = copied.Seek(0, 0)
	}
	if err != nil {
		copied.Close() //nolint:errcheck // the error of the copy is returned
		return nil, nil, fmt.Errorf("load image archive %s: %w", o.Load, err)
	}
	return copied, image, nil
}

// nameless returns a new file that only the agent can access.
func (m *Store) nameless() (*os.File, error) {
	dir := m.cfg.Dir
	if dir == "" {
		dir = os.TempDir()
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
}

// maxReserve is the free space that copies leave on their file system, if 5 % of it are not less.
const maxReserve = 1 << 30

// reserving is a file whose writes fail before its file system is full: an archive of few bytes can unpack to many.
type reserving struct {
	*os.File
	room int64 // bytes that can be written before the next look
}

// Write implements io.Writer.
func (r *reserving) Write(b []byte) (int, error) {
	if r.room < int64(len(b)) {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(int(r.Fd()), &fs); err != nil {
			return 0, fmt.Errorf("read the free space: %w", err)
		}
		free, reserve := int64(fs.Bavail)*fs.Bsize, min(int64(fs.Blocks)*fs.Bsize/20, maxReserve)
		if r.room = min(free-reserve, 64<<20); r.room < int64(len(b)) {
			return 0, fmt.Errorf("the node has %d bytes left for it, and %d of them are reserved: %w", free, reserve, unix.ENOSPC)
		}
	}
	n, err := r.File.Write(b)
	r.room -= int64(n)
	return n, err
}
