package taskhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// stateFetched is the key of the hook's state that holds the artifacts that are done as JSON: fetched
// by key.
const stateFetched = "fetched"

// progressEvery is the minimum interval between two progress events of a task, and before the first one.
const progressEvery = 5 * time.Second

// artifactHook downloads the artifacts of a task once, before its first start. An artifact that was
// downloaded is not downloaded again after a failure of another.
type artifactHook struct {
	fetcher *artifact.Fetcher
	alloc   *allocdir.Dir
	control Control
	ids     Identities
	log     *slog.Logger
}

func newArtifactHook(c Config) hook.Hook {
	return &artifactHook{fetcher: c.Artifacts, alloc: c.Dir, control: c.Control, ids: c.Identities, log: c.Log}
}

func (*artifactHook) Name() string { return "artifacts" }

func (h *artifactHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if len(req.Task.Artifacts) == 0 {
		resp.Done = true
		return nil
	}
	if req.Running {
		return nil // an earlier agent has downloaded them
	}
	err := h.fetch(ctx, req, resp)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return &Fault{Type: nomad.TaskArtifactDownloadFailed, Err: &drivers.RecoverableError{Err: err}}
	}
	resp.Done = true
	return nil
}

// fetched is an artifact that is done.
type fetched struct{ Name, Digest string }

func (h *artifactHook) fetch(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if req.Dir == nil {
		return errNoDir
	}
	if err := artifact.RemoveLeftovers(req.Dir); err != nil {
		h.log.Warn("remove unfinished downloads", "err", err) // they only take space
	}
	confinement, err := req.Confine()
	if err != nil {
		return fmt.Errorf("prepare to download artifacts: %w", err)
	}
	done := readFetched(req.PreviousState)
	var todo []*nomad.TaskArtifact
	for _, a := range req.Task.Artifacts {
		if a == nil {
			continue // possible only in a job that was stored without validation
		}
		if a = resolve(a, req.Env, req.Dir); done[artifactKey(a)] == nil {
			todo = append(todo, a)
		}
	}
	h.announce(confinement.By)
	progress := &progress{control: h.control, last: time.Now()}
	results := h.fetcher.Fetch(ctx, &artifact.Task{
		AllocPath: h.alloc.Path(), Dir: req.Dir, UID: req.Owner.UID, GID: req.Owner.GID, Run: confinement.Run, Progress: progress.report,
		Reach: artifact.ReachOf(req.Alloc, req.Task),
	}, todo)
	failed := 0
	for i, r := range results {
		if r.Err != nil {
			failed++
			err = r.Err
			continue
		}
		done[artifactKey(todo[i])] = &fetched{r.Name, r.Digest}
	}
	digests := digestsOf(done)
	resp.State = artifactState(done)
	resp.ArtifactDigests = digests
	if rerr := h.ids.Downloaded(ctx, req.Task.Name, digests); rerr != nil {
		h.log.Warn("get tokens with the digests of artifacts: later ones have them", "err", rerr)
	}
	if failed > 1 {
		return fmt.Errorf("%w (%d artifacts failed)", err, failed)
	}
	return err
}

// announce emits the event of a download. It names what confines the program.
func (h *artifactHook) announce(by string) {
	if h.fetcher.Unconfined() {
		by += ", without Landlock"
	}
	h.control.Emit(&nomad.TaskEvent{
		Type: nomad.TaskDownloadingArtifacts, Details: map[string]string{"confined_by": by},
		DisplayMessage: "Client is downloading artifacts, confined by " + by,
	})
}

// resolve returns a copy of an artifact in which all references are replaced. Its destination is relative to
// the task's directory.
func resolve(a *nomad.TaskArtifact, env *taskenv.Env, dir *allocdir.Task) *nomad.TaskArtifact {
	out := *a
	out.GetterSource, out.GetterMode = env.Expand(a.GetterSource), env.Expand(a.GetterMode)
	out.GetterOptions, out.GetterHeaders = expandMap(env, a.GetterOptions), expandMap(env, a.GetterHeaders)
	if v := a.Verify; v != nil {
		out.Verify = &nomad.ArtifactVerify{MinisignKey: env.Expand(v.MinisignKey), Signature: env.Expand(v.Signature)}
	}
	out.RelativeDest = inTask(env.Expand(a.RelativeDest), env, dir)
	if out.RelativeDest == "" {
		out.RelativeDest = allocdir.LocalName + "/"
		if out.GetterMode == "file" {
			source, _, _ := strings.Cut(out.GetterSource, "?")
			out.RelativeDest += path.Base(source)
		}
	}
	return &out
}

func expandMap(env *taskenv.Env, m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[env.Expand(key)] = env.Expand(value)
	}
	return out
}

// inTask converts a destination, as the task sees it, to a path relative to the task's directory. Package
// artifact checks that it stays in the allocation. Another absolute path is relative to that directory too, as in
// Nomad.
func inTask(destination string, env *taskenv.Env, dir *allocdir.Task) string {
	for _, seen := range []struct{ as, is string }{
		{env.Var("NOMAD_ALLOC_DIR"), "../" + allocdir.SharedName}, {env.Var("NOMAD_TASK_DIR"), allocdir.LocalName},
		{env.Var("NOMAD_SECRETS_DIR"), allocdir.SecretsName}, {dir.Path(), "."},
	} {
		if rest, ok := strings.CutPrefix(destination, seen.as); ok && seen.as != "" && (rest == "" || rest[0] == '/') {
			return seen.is + rest
		}
	}
	return strings.TrimLeft(destination, "/")
}

// artifactKey identifies a resolved artifact in the state. It does not reveal options or headers.
func artifactKey(a *nomad.TaskArtifact) string {
	text, err := json.Marshal(a)
	if err != nil {
		panic("taskhook: bug: artifact cannot be encoded: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// readFetched returns the artifacts that are done. State that cannot be read means that none is.
func readFetched(state map[string]string) map[string]*fetched {
	out := map[string]*fetched{}
	if err := json.Unmarshal([]byte(state[stateFetched]), &out); err != nil || out == nil {
		return map[string]*fetched{}
	}
	return out
}

// digestsOf returns the digest of each download by its destination.
func digestsOf(done map[string]*fetched) map[string]string {
	digests := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(done)) {
		f := done[key]
		if f == nil || f.Digest == "" {
			continue
		}
		name := f.Name
		if _, taken := digests[name]; taken { // two archives in one directory
			name += "#" + key[:8]
		}
		digests[name] = f.Digest
	}
	return digests
}

func artifactState(done map[string]*fetched) map[string]string {
	text, err := json.Marshal(done)
	if err != nil {
		panic("taskhook: bug: state of artifacts cannot be encoded: " + err.Error())
	}
	return map[string]string{stateFetched: string(text)}
}

// progress emits events about a long download.
type progress struct {
	control Control

	mu   sync.Mutex
	last time.Time // of the latest event, at first of the start
}

// report emits an event if the latest one is long enough ago.
func (p *progress) report(_ int, now artifact.Progress) {
	p.mu.Lock()
	due := time.Since(p.last) >= progressEvery
	if due {
		p.last = time.Now()
	}
	p.mu.Unlock()
	if !due {
		return
	}
	text := "Downloaded " + mebibytes(now.Bytes)
	details := map[string]string{"downloaded_bytes": strconv.FormatInt(now.Bytes, 10), "source": now.Source}
	if now.Total > 0 {
		percent := min(100*(float64(now.Bytes)/float64(now.Total)), 100)
		text += fmt.Sprintf(" of %s (%.0f %%)", mebibytes(now.Total), percent)
		details["total_bytes"] = strconv.FormatInt(now.Total, 10)
	}
	p.control.Emit(&nomad.TaskEvent{Type: nomad.TaskDownloadingArtifacts, DisplayMessage: text + " from " + now.Source, Details: details})
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
