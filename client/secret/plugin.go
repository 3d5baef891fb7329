package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Calls of plugins at a time. Fingerprints have their own: plugins that hang must not delay the fetches of others.
const (
	maxFetches      = 4
	maxFingerprints = 4

	// MaxCalls is the number of all calls at a time, and of the users that they need.
	MaxCalls = maxFetches + maxFingerprints
)

// Limits of a call of a plugin.
const (
	callTime   = 60 * time.Second
	maxOutput  = 1 << 20
	maxScript  = 1 << 20
	maxShown   = 256 // bytes of a plugin's own error
	drainAfter = time.Second
)

// Confiner runs plugins (process.Confiner).
type Confiner interface {
	ConfinePlugin(ctx context.Context, p *process.Plugin) (*drivers.ExitResult, error)
}

// Users assigns uids (driverset.Users).
type Users interface {
	Assign(owner string) (int, error)
	Release(owner string)
}

// Plugins are the plugins of the node.
type Plugins struct {
	dir      string // of the plugins
	runs     string // of the temporary directories of calls
	confiner Confiner
	users    Users
	log      *slog.Logger
	number   atomic.Uint64

	fetches, fingerprints chan struct{} // slots of calls
}

// PluginsConfig configures Plugins.
type PluginsConfig struct {
	CommonDir string // its directory secrets has the plugins
	StateDir  string // a private directory of the agent
	Confiner  Confiner
	Users     Users // only for root; nil: there are not enough
	Log       *slog.Logger
}

// NewPlugins returns the plugins of a node. It removes what calls of an earlier agent have left.
func NewPlugins(c PluginsConfig) *Plugins {
	p := &Plugins{dir: filepath.Join(c.CommonDir, "secrets"), runs: filepath.Join(c.StateDir, "secret_plugins"), confiner: c.Confiner,
		users: c.Users, log: c.Log, fetches: make(chan struct{}, maxFetches), fingerprints: make(chan struct{}, maxFingerprints)}
	if err := os.RemoveAll(p.runs); err != nil {
		c.Log.Warn("remove the temporary files of plugins", "err", err) // they only take space
	}
	return p
}

// fetch calls a plugin for a block. It calls t.Waits with what it waits for, also if that is short.
func (p *Plugins) fetch(ctx context.Context, t *Task, s *nomad.Secret, env *taskenv.Env) (map[string]string, error) {
	vars := make(map[string]string, len(s.Env)+3)
	for key, value := range s.Env {
		if err := nomad.CheckSecretVariable(key); err != nil { // of a job that other servers have admitted
			return nil, fmt.Errorf("secret %q: the env key %q: %w", s.Name, untrusted.Shorten(key, maxShown), err)
		}
		vars[key] = env.Expand(value)
	}
	maps.Copy(vars, map[string]string{"CPI_OPERATION": "fetch", "NOMAD_NAMESPACE": t.Namespace, "NOMAD_JOB_ID": t.JobID})
	t.Waits(fmt.Sprintf("plugin %q for secret %q waits for calls of other tasks: at most %d run at a time", s.Provider, s.Name, maxFetches))
	select {
	case p.fetches <- struct{}{}:
		defer func() { <-p.fetches }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t.Waits(fmt.Sprintf("plugin %q for secret %q has not answered yet", s.Provider, s.Name))
	out, err := p.call(ctx, call{plugin: s.Provider, args: []string{"fetch", s.Path}, env: vars, limit: callTime})
	if err != nil {
		return nil, fmt.Errorf("failed executing plugin %q for secret %q: %w", s.Provider, s.Name, err)
	}
	var answer struct {
		Result map[string]string `json:"result"`
		Error  *string           `json:"error"`
	}
	if json.Unmarshal(out, &answer) != nil { // the error could quote a value
		return nil, fmt.Errorf("failed executing plugin %q for secret %q: its output is not JSON of the form "+
			`{"result": {"key": "value"}, "error": null}`, s.Provider, s.Name)
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("provider %q for secret %q response contained error: %q", s.Provider, s.Name,
			untrusted.Shorten(env.Redact(*answer.Error), maxShown))
	}
	return answer.Result, nil
}

// call is one run of a plugin.
type call struct {
	plugin string
	args   []string
	env    map[string]string
	limit  time.Duration
}

// call runs a plugin and returns its output. The caller has a slot.
func (p *Plugins) call(ctx context.Context, c call) ([]byte, error) {
	f, err := p.open(c.plugin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	owner := fmt.Sprintf("secret plugin %d", p.number.Add(1))
	uid := -1
	if os.Geteuid() == 0 {
		if p.users == nil {
			return nil, fmt.Errorf("plugins need users of their own: configure at least %d dynamic users for the client", 2*MaxCalls)
		}
		if uid, err = p.users.Assign(owner); err != nil {
			return nil, err
		}
		defer p.users.Release(owner)
	}
	tmp, err := p.makeTmp(uid)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := os.RemoveAll(tmp); err != nil {
			p.log.Warn("remove the temporary files of a plugin", "err", err)
		}
	}()
	run := &process.Plugin{Name: filepath.Base(tmp), Program: f, Args: append([]string{c.plugin}, c.args...), Env: c.env, UID: uid, Tmp: tmp}
	if err := p.asScript(run, f); err != nil {
		return nil, err
	}
	return p.run(ctx, run, c.limit)
}

// makeTmp returns a new directory of a user below one that only the agent can enter.
func (p *Plugins) makeTmp(uid int) (string, error) {
	if err := os.MkdirAll(p.runs, 0o700); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(p.runs, "run")
	if err == nil && uid >= 0 {
		err = os.Chown(tmp, uid, uid)
	}
	return tmp, err
}

// asScript copies a script into the /tmp of its run: an interpreter opens it by its path, and does not get descriptors.
func (p *Plugins) asScript(run *process.Plugin, f *os.File) error {
	head := make([]byte, 2)
	if n, err := f.ReadAt(head, 0); n < len(head) || string(head) != "#!" {
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
	script, err := io.ReadAll(io.NewSectionReader(f, 0, maxScript+1))
	if err != nil {
		return err
	}
	if len(script) > maxScript {
		return fmt.Errorf("the script has more than %d MiB", maxScript>>20)
	}
	name := filepath.Join(run.Tmp, run.Args[0])
	if err := os.WriteFile(name, script, 0o555); err != nil {
		return err
	}
	if err := os.Chmod(name, 0o555); err != nil { // whatever the umask is
		return err
	}
	run.Program = nil
	run.Args[0] = filepath.Join(process.PluginTmp(run.Tmp), run.Args[0])
	return nil
}

// run runs a plugin and returns its output. Its standard error is only counted.
func (p *Plugins) run(ctx context.Context, run *process.Plugin, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it did not end within %s and was killed", limit))
	defer cancel()
	out := &firstbytes.Buffer{Limit: maxOutput, OnCut: cancel}
	stderr := &counter{}
	exit, err := p.piped(ctx, run, [2]io.Writer{out, stderr})
	if n := stderr.n.Load(); n > 0 {
		p.log.Info("a secrets plugin wrote to its standard error, which is not kept: it could contain secrets", "plugin", filepath.Base(run.Args[0]),
			"bytes", n)
	}
	switch {
	case out.Truncated():
		return nil, fmt.Errorf("it printed more than %d MiB and was killed", maxOutput>>20)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case exit.Signal != 0:
		return nil, fmt.Errorf("killed by signal %d", exit.Signal)
	case exit.ExitCode != 0:
		return nil, fmt.Errorf("exit status %d (%d bytes on its standard error are not shown)", exit.ExitCode, stderr.n.Load())
	}
	return out.Bytes(), nil
}

// piped runs a plugin and copies its output and its standard error.
func (p *Plugins) piped(ctx context.Context, run *process.Plugin, to [2]io.Writer) (*drivers.ExitResult, error) {
	var copies sync.WaitGroup
	var reads, writes []*os.File
	defer func() {
		for i := range reads {
			writes[i].Close() // the plugin has its own
			_ = reads[i].SetReadDeadline(time.Now().Add(drainAfter))
		}
		copies.Wait()
	}()
	for i, w := range to {
		r, end, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		reads, writes, run.Stdio[i+1] = append(reads, r), append(writes, end), end
		copies.Go(func() {
			defer r.Close()
			_, _ = io.Copy(w, r) // the writers never fail, and the end of the pipe is not an error
		})
	}
	return p.confiner.ConfinePlugin(ctx, run)
}

// counter counts bytes and keeps none.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// open opens a plugin. A link is refused, and so is a file that others than root and the agent's user can write.
func (p *Plugins) open(name string) (*os.File, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return nil, fmt.Errorf("plugin not found: %q", name)
	}
	dir, err := safefs.Open(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("plugin not found: %q", name)
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("plugin not found: %q", name)
	}
	if err != nil {
		return nil, fmt.Errorf("plugin %q: %w", name, err)
	}
	for _, file := range []interface{ Stat() (fs.FileInfo, error) }{dir, f} {
		if err = trusted(file); err != nil {
			break
		}
	}
	if info, serr := f.Stat(); err == nil && (serr != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = errors.Join(serr, fmt.Errorf("plugin not executable: %q", name))
	}
	if err != nil {
		f.Close() // only read
		return nil, err
	}
	return f, nil
}

// list returns the names of the files in the directory of plugins.
func (p *Plugins) list() []string {
	dir, err := safefs.Open(p.dir)
	if err == nil {
		defer dir.Close()
		names, nerr := dir.Names()
		if nerr == nil {
			return names
		}
		err = nerr
	}
	if !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("read the directory of secrets plugins", "err", err)
	}
	return nil
}
