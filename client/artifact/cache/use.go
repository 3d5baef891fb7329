package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/ctxreader"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Hit is a cached file, positioned at its start. The caller closes it.
type Hit struct {
	Entry
	File *os.File
}

// Get opens the file of a key, or returns nil if the cache does not have it.
func (c *Cache) Get(ctx context.Context, key string) (*Hit, error) {
	e, checked, ok := c.find(key)
	if !ok {
		return nil, nil
	}
	f, err := c.open(ctx, e.SHA256, checked)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.log.Warn("artifact cache: discard a file", "sha256", e.SHA256, "err", err)
		c.discard(e.SHA256)
		return nil, nil //nolint:nilerr // the artifact is downloaded instead
	}
	c.hit(c.use(e.SHA256))
	return &Hit{Entry: e, File: f}, nil
}

func (c *Cache) find(key string) (e Entry, checked, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok = c.entries[key]
	if !ok || c.files[e.SHA256] == nil {
		return e, false, false
	}
	return e, c.files[e.SHA256].checked, true
}

// open opens a blob and records its use on disk. It hashes the content unless it was checked before.
func (c *Cache) open(ctx context.Context, file string, checked bool) (*os.File, error) {
	f, err := c.blobs.Open(file)
	if err != nil {
		return nil, err
	}
	if !checked {
		err = verify(ctx, f, file)
	}
	if err == nil {
		err = touch(f)
	}
	if err != nil {
		f.Close() // the error is returned
		return nil, err
	}
	return f, nil
}

// verify hashes the content.
func verify(ctx context.Context, f *os.File, want string) error {
	sum := sha256.New()
	if _, err := io.Copy(sum, ctxreader.New(ctx, f)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return errors.New("its content has changed")
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// touch sets the modification time to now.
func touch(f *os.File) error {
	now := time.Now()
	return os.Chtimes(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), now, now)
}

// use records a use in memory, and returns the size.
func (c *Cache) use(file string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.files[file]
	if b == nil {
		return 0 // removed in the meantime; the open file stays readable
	}
	b.used, b.checked = time.Now(), true
	return b.size
}

// Missed counts an artifact that is downloaded because the cache does not have it.
func (c *Cache) Missed() {
	metrics.IncrCounter([]string{"client", "artifact_cache", "misses"}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Misses++
}

// hit counts a file that was found.
func (c *Cache) hit(size int64) {
	metrics.IncrCounter([]string{"client", "artifact_cache", "hits"}, 1)
	metrics.IncrCounter([]string{"client", "artifact_cache", "hit_bytes"}, float32(size))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Hits++
	c.counts.HitBytes += size
}

// discard removes a blob.
func (c *Cache) discard(file string) {
	c.mu.Lock()
	paths := c.drop(file)
	c.mu.Unlock()
	c.remove(paths)
}

// Put adds a file. It copies the content and checks that it is the one of the entry. A file above the limit of
// the cache is not added.
func (c *Cache) Put(ctx context.Context, key string, e Entry, from *os.File) error {
	if !name().MatchString(key) {
		return fmt.Errorf("%q is not a key", key)
	}
	if err := e.check(); err != nil {
		return err
	}
	info, err := from.Stat()
	if err != nil {
		return err
	}
	if info.Size() > c.limit {
		return nil
	}
	if !c.has(e.SHA256) {
		c.remove(c.room(info.Size()))
		if err := c.store(ctx, e.SHA256, from); err != nil {
			return fmt.Errorf("store %s: %w", e.SHA256, err)
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := c.index.Replace(key, text, safefs.File{Mode: 0o600, UID: -1, GID: -1}); err != nil {
		return err
	}
	c.add(key, e, info.Size())
	c.remove(c.room(0)) // several Puts at once can exceed the limit
	return nil
}

func (c *Cache) has(file string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files[file] != nil
}

func (c *Cache) add(key string, e Entry, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key] = e
	if c.files[e.SHA256] == nil {
		c.files[e.SHA256] = &blob{size: size, checked: true}
		c.total += size
	}
	c.files[e.SHA256].used = time.Now()
}

// store copies a file into the directory of blobs.
func (c *Cache) store(ctx context.Context, file string, from *os.File) error {
	temp, tempName, err := c.blobs.Temp(".new-", 0o700)
	if err != nil {
		return err
	}
	defer temp.Close()
	err = fill(ctx, temp, file, from)
	if err == nil {
		err = temp.Move(file, c.blobs, file)
	}
	return errors.Join(err, c.blobs.RemoveAll(tempName))
}

// fill writes and checks the copy.
func fill(ctx context.Context, dir *safefs.Dir, file string, from *os.File) error {
	to, err := dir.Create(file, 0o400)
	if err != nil {
		return err
	}
	err = safefs.Copy(to, from)
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = verify(ctx, to, file)
	}
	return errors.Join(err, to.Close())
}
