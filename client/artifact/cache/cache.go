// Package cache keeps the files of artifacts on the node, so that later allocations need no download.
//
//	<dir>/               0700 of the agent
//	  blobs/<sha256>     a file, named by its content; its modification time is that of the last use
//	  index/<key>        JSON: an Entry, with the blob that it leads to
//
// A key identifies how an artifact was obtained; package artifact makes it. Several keys can lead to one
// blob. Content enters through Put, which hashes it while it copies. It is hashed again before its first use
// by an agent, so that a change on the disk while no agent ran is noticed. Everything is copied in both
// directions, by sharing blocks where the file system can, and never linked.
//
// When the size exceeds the limit, the blobs that were not used for the longest time are removed. A file in use
// stays readable. Files that do not belong to an entry are removed when the cache opens.
//
// The package starts no goroutine. Its mutex is not held during input and output.
package cache

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Bounds of the index.
const (
	maxEntries   = 10_000
	maxEntrySize = 8 << 10
)

// Entry describes a cached file.
type Entry struct {
	SHA256  string // of the content, in hexadecimal
	Archive bool   // must be unpacked
	Name    string // of the file, if it is not an archive
}

// Cache is the cache of one node. All methods may be called concurrently.
type Cache struct {
	limit        int64
	log          *slog.Logger
	blobs, index *safefs.Dir

	mu      sync.Mutex
	entries map[string]Entry // by key
	files   map[string]*blob // by SHA-256
	total   int64
	counts  Counts
}

// blob is a file of the cache.
type blob struct {
	size    int64
	used    time.Time
	checked bool // its content was hashed by this agent
}

// Counts are the counters of a cache since the agent started.
type Counts struct {
	Hits, Misses int
	HitBytes     int64 // copied from the cache
	Evicted      int   // blobs removed for others
}

// Status describes a cache.
type Status struct {
	Size, Limit int64
	Files, Keys int
	Counts
}

// name matches keys and the names of blobs.
var name = pattern.Lazy(`^[0-9a-f]{64}$`)

// Open opens the cache in dir and creates it if it does not exist. limit is its maximum size in bytes.
func Open(dir string, limit int64, log *slog.Logger) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := safefs.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.Chmod(0o700); err != nil {
		return nil, err
	}
	c := &Cache{limit: limit, log: log, entries: map[string]Entry{}, files: map[string]*blob{}}
	if c.blobs, err = root.Make("blobs", 0o700); err != nil {
		return nil, err
	}
	if c.index, err = root.Make("index", 0o700); err != nil {
		c.Close()
		return nil, err
	}
	if err := c.load(); err != nil {
		c.Close()
		return nil, err
	}
	c.remove(c.room(0))
	return c, nil
}

// Close closes the directories. The files stay.
func (c *Cache) Close() {
	for _, d := range []*safefs.Dir{c.blobs, c.index} {
		if d != nil {
			d.Close() // opened for reading: closing loses nothing
		}
	}
}

// load reads the index, and removes entries without a blob, blobs without an entry, and other files.
func (c *Cache) load() error {
	err := c.blobs.Each(func(file string, info safefs.Info) error {
		if name().MatchString(file) && info.Mode.IsRegular() {
			modified, err := c.modified(file)
			c.files[file] = &blob{size: info.Size, used: modified}
			return err
		}
		return c.blobs.RemoveAll(file)
	})
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	wanted := map[string]bool{}
	err = c.index.Each(func(key string, _ safefs.Info) error {
		e, err := c.read(key)
		if err != nil || c.files[e.SHA256] == nil || len(c.entries) >= maxEntries {
			return c.index.RemoveAll(key)
		}
		c.entries[key], wanted[e.SHA256] = e, true
		return nil
	})
	if err != nil {
		return fmt.Errorf("list index: %w", err)
	}
	for file, b := range c.files {
		if wanted[file] {
			c.total += b.size
			continue
		}
		delete(c.files, file)
		if err := c.blobs.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// modified returns the modification time of a blob.
func (c *Cache) modified(file string) (time.Time, error) {
	f, err := c.blobs.Open(file)
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// read reads an entry of the index.
func (c *Cache) read(key string) (e Entry, err error) {
	if !name().MatchString(key) {
		return e, errors.New("not a key")
	}
	text, err := c.index.ReadFile(key, maxEntrySize)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, err
	}
	return e, e.check()
}

// check refuses entries that Put would not have written.
func (e Entry) check() error {
	switch {
	case !name().MatchString(e.SHA256):
		return fmt.Errorf("%q is not a SHA-256", e.SHA256)
	case !e.Archive && e.Name != "" && (path.Base(e.Name) != e.Name || e.Name == "." || e.Name == ".."):
		return fmt.Errorf("%q is not the name of a file", e.Name)
	}
	return nil
}

// room removes blobs from memory until size more bytes fit, and returns them with their keys.
func (c *Cache) room(size int64) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := make([]string, 0, len(c.files))
	for file := range c.files {
		oldest = append(oldest, file)
	}
	slices.SortFunc(oldest, func(a, b string) int { return c.files[a].used.Compare(c.files[b].used) })
	var out []string
	for _, file := range oldest {
		if c.total+size <= c.limit && len(c.entries) < maxEntries {
			break
		}
		c.counts.Evicted++
		out = append(out, c.drop(file)...)
	}
	return out
}

// drop removes a blob from memory. It returns the paths to remove. c.mu must be held.
func (c *Cache) drop(file string) []string {
	b := c.files[file]
	if b == nil {
		return nil
	}
	c.total -= b.size
	delete(c.files, file)
	out := []string{"blobs/" + file}
	for key, e := range c.entries {
		if e.SHA256 == file {
			delete(c.entries, key)
			out = append(out, "index/"+key)
		}
	}
	return out
}

// remove removes paths from the disk.
func (c *Cache) remove(paths []string) {
	for _, p := range paths {
		dir, file := c.blobs, path.Base(p)
		if path.Dir(p) == "index" {
			dir = c.index
		}
		if err := dir.Remove(file); err != nil {
			c.log.Warn("remove from the artifact cache", "err", err)
		}
	}
}

// Status returns the size and the counters.
func (c *Cache) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{Size: c.total, Limit: c.limit, Files: len(c.files), Keys: len(c.entries), Counts: c.counts}
}

// File is a cached file. Used is the time of its last use.
type File struct {
	SHA256 string
	Size   int64
	Used   time.Time
}

// Files lists the cached files, the most recently used first.
func (c *Cache) Files() []File {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]File, 0, len(c.files))
	for sum, b := range c.files {
		list = append(list, File{SHA256: sum, Size: b.size, Used: b.used})
	}
	slices.SortFunc(list, func(a, b File) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.SHA256, b.SHA256)) })
	return list
}

// Purge removes everything and returns the size of the removed files in bytes. Copies in progress
// are completed.
func (c *Cache) Purge() (freed int64) {
	c.mu.Lock()
	freed = c.total
	var paths []string
	for file := range c.files {
		paths = append(paths, c.drop(file)...)
	}
	c.mu.Unlock()
	c.remove(paths)
	return freed
}
