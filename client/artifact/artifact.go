package artifact

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/artifact/cache"
	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Config is the client's artifact block. Sizes and counts of 0 are unlimited, except CacheSize. Timeouts of 0 are
// 30 minutes.
type Config struct {
	Limits   fetch.Limits
	Timeouts fetch.Timeouts
	// KeepLinks accepts links that lead out of the artifact.
	KeepLinks bool
	// Unconfined runs the program without restrictions of the file system (Landlock).
	Unconfined bool
	ExtraPaths []ExtraPath
	Env        map[string]string // of the program, from the agent's
	CacheDir   string            // <state_dir>/artifacts
	CacheSize  int64             // bytes; 0 disables the cache
}

// parallel is the number of simultaneous downloads of a task.
const parallel = 3

// Task is where and how the artifacts of one task are downloaded.
type Task struct {
	AllocPath string // the directory of the allocation
	Dir       *allocdir.Task
	UID, GID  int // of the task's user; -1 keeps the owner
	Reach     Reach
	// Run runs the program as the task would run: see drivers.Confiner.
	Run func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error)
	// Progress receives the progress of artifact i. It may be called concurrently.
	Progress func(i int, p Progress)
}

// Progress is the progress of a download.
type Progress struct {
	Source string // without credentials
	Bytes  int64
	Total  int64 // 0 if unknown
}

// Result is the result of one artifact.
type Result struct {
	Digest string // sha256:<hex> of the downloaded file; "" for downloads that are not one file, as with git
	Name   string // path of the artifact relative to the task's directory: its file, or the directory that it was unpacked to
	Err    error
}

// Fetcher downloads the artifacts of all tasks of the node.
type Fetcher struct {
	cfg   Config
	log   *slog.Logger
	cache *cache.Cache // nil if disabled

	mu      sync.Mutex
	flights map[string]*flight // downloads of cacheable artifacts, by key
}

// New returns a Fetcher. It opens the cache.
func New(cfg Config, log *slog.Logger) (*Fetcher, error) {
	for _, t := range []*time.Duration{&cfg.Timeouts.HTTP, &cfg.Timeouts.Git, &cfg.Timeouts.Hg, &cfg.Timeouts.GCS, &cfg.Timeouts.S3} {
		*t = cmp.Or(*t, defaultTimeout)
	}
	f := &Fetcher{cfg: cfg, log: log, flights: map[string]*flight{}}
	if cfg.CacheSize > 0 {
		c, err := cache.Open(cfg.CacheDir, cfg.CacheSize, log)
		if err != nil {
			return nil, fmt.Errorf("open artifact cache: %w", err)
		}
		f.cache = c
	}
	return f, nil
}

// Fetch downloads the artifacts, whose references must be replaced already, and returns the result of each. A
// failure does not stop the others. Destinations are relative to the task's directory.
func (f *Fetcher) Fetch(ctx context.Context, t *Task, artifacts []*nomad.TaskArtifact) []Result {
	results := make([]Result, len(artifacts))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, a := range artifacts {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = f.one(ctx, t, i, a)
		})
	}
	all.Wait()
	return results
}

// one downloads one artifact.
func (f *Fetcher) one(ctx context.Context, t *Task, i int, a *nomad.TaskArtifact) Result {
	j, err := f.newJob(t, i, a)
	if err != nil {
		return Result{Err: fmt.Errorf("failed to download artifact %q: %w", nameOf(a), err)}
	}
	result, err := j.run(ctx)
	if err != nil {
		result = Result{Err: fmt.Errorf("failed to download artifact %q: %w", j.source, j.scrub(err))}
	}
	return result
}

// nameOf returns the source of an artifact without credentials.
func nameOf(a *nomad.TaskArtifact) string {
	s, err := fetch.ParseSource(a.GetterSource, nil)
	if err != nil {
		before, _, _ := strings.Cut(a.GetterSource, "?")
		return fetch.Clean(before)
	}
	return s.String()
}

// Unconfined reports whether the operator has disabled the restrictions of the file system.
func (f *Fetcher) Unconfined() bool { return f.cfg.Unconfined }

// Cache returns the cache of the node, or nil if it is disabled.
func (f *Fetcher) Cache() *cache.Cache { return f.cache }

// defaultTimeout is the timeout of a kind of source that the configuration does not set.
const defaultTimeout = 30 * time.Minute

// margin is added to the longest timeout to limit a step of a download.
const margin = time.Minute
