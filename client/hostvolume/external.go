package hostvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// external is an executable in the plugin directory.
type external struct {
	id  string
	cfg *Config
}

// create calls the plugin and checks its answer.
func (p *external) create(ctx context.Context, req *message.ClientHostVolumeCreateRequest) (made, error) {
	params, err := parameters(req.Parameters)
	if err != nil {
		return made{}, err
	}
	env := append(p.common(req.Namespace, req.Name, req.ID, params),
		"DHV_CAPACITY_MIN_BYTES="+strconv.FormatInt(req.RequestedCapacityMinBytes, 10),
		"DHV_CAPACITY_MAX_BYTES="+strconv.FormatInt(req.RequestedCapacityMaxBytes, 10))
	out, err := p.run(ctx, "create", p.cfg.CallLimit, env)
	if err != nil {
		return made{}, err
	}
	var answer struct {
		Path  string `json:"path"`
		Bytes int64  `json:"bytes"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return made{}, p.unexpected("create", out, `{"path": "/…", "bytes": 0}`)
	}
	if answer.Bytes < 0 || rules.HostPath(answer.Path) != nil {
		return made{}, p.unexpected("create", out, "an absolute path, and bytes that are not negative")
	}
	return made{path: answer.Path, bytes: answer.Bytes}, nil
}

// remove calls the plugin. Its output is ignored.
func (p *external) remove(ctx context.Context, req *message.ClientHostVolumeDeleteRequest) error {
	params, err := parameters(req.Parameters)
	if err != nil {
		return err
	}
	env := append(p.common(req.Namespace, req.Name, req.ID, params), "DHV_CREATED_PATH="+req.HostPath)
	_, err = p.run(ctx, "delete", p.cfg.CallLimit, env)
	return err
}

// fingerprint returns the version of the plugin.
func (p *external) fingerprint(ctx context.Context) (string, error) {
	out, err := p.run(ctx, "fingerprint", p.cfg.FingerprintLimit, nil)
	if err != nil {
		return "", err
	}
	var answer struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(out, &answer); err != nil || !validVersion(answer.Version) {
		return "", p.unexpected("fingerprint", out, `{"version": "1.2.3"}`)
	}
	return answer.Version, nil
}

// common returns the environment that create and delete share.
func (p *external) common(namespace, name, id, params string) []string {
	return []string{"DHV_VOLUMES_DIR=" + p.cfg.VolumesDir, "DHV_PLUGIN_DIR=" + p.cfg.PluginDir, "DHV_NODE_POOL=" + p.cfg.NodePool,
		"DHV_NAMESPACE=" + namespace, "DHV_VOLUME_NAME=" + name, "DHV_VOLUME_ID=" + id, "DHV_NODE_ID=" + p.cfg.NodeID, "DHV_PARAMETERS=" + params}
}

// parameters returns the parameters of a volume as JSON: an object, or null without any.
func parameters(params map[string]string) (string, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return "", fmt.Errorf("encode parameters: %w", err)
	}
	return string(text), nil
}

// run runs one call and returns its output. A plugin that fails may have printed its reason as JSON.
func (p *external) run(ctx context.Context, op string, limit time.Duration, env []string) ([]byte, error) {
	f, err := executable(p.cfg.PluginDir, p.id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out, err := call{file: f, op: op, env: append(env, "DHV_OPERATION="+op), limit: limit}.run(ctx)
	if err == nil {
		return out, nil
	}
	var reason struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(out, &reason) == nil && reason.Error != "" {
		err = fmt.Errorf("%w: %s", err, untrusted.Shorten(reason.Error, maxShown))
	}
	return nil, fmt.Errorf("call %q of host volume plugin %q failed: %w", op, p.id, err)
}

// maxShown bounds the text of a plugin in an error.
const maxShown = 256

// unexpected returns the error for output that has another form than want.
func (p *external) unexpected(op string, out []byte, want string) error {
	return fmt.Errorf("host volume plugin %q printed %q for the call %q: change %s so that it prints %s, or remove it",
		p.id, untrusted.Shorten(string(out), maxShown), op, p.cfg.PluginDir+"/"+p.id, want)
}

// executable opens a plugin. A name that is a link, and a file that every user can write, are refused.
func executable(dir, id string) (*os.File, error) {
	root, err := safefs.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noPlugin(dir, id)
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noPlugin(dir, id)
	}
	if err != nil {
		return nil, fmt.Errorf("host volume plugin %q: %w", id, err)
	}
	if err := runnable(f); err != nil {
		f.Close() // the file was only read
		return nil, fmt.Errorf("host volume plugin %q in %s %w", id, dir, err)
	}
	return f, nil
}

func noPlugin(dir, id string) error {
	return fmt.Errorf("no host volume plugin %q: use %q, or put an executable of that name into %s", id, MkdirID, dir)
}

func runnable(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file: remove it")
	case info.Mode()&0o111 == 0:
		return errors.New("is not executable: run chmod +x, or remove it")
	case info.Mode()&0o002 != 0:
		return errors.New("can be written by every user: run chmod o-w")
	}
	return nil
}

// present returns an error if the plugin directory has no such plugin.
func present(dir, id string) error {
	f, err := executable(dir, id)
	if err != nil {
		return err
	}
	return f.Close()
}
