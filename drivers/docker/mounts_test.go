package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// notMountable is the error for paths of the allocation that a task cannot mount.
const notMountable = "a task can mount paths below its own local, secrets and tmp, and below ../alloc/data and ../alloc/tmp"

// Without volumes.enabled, only paths in directories of the task are mounted: links are followed, but
// not out of these.
func TestVolumesDisabled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	secret := filepath.Join(f.dir, "outside")
	f.write(f.dir, "outside", "secret of the node")
	for name, c := range map[string]struct {
		config block
		link   string // target of <task>/local/link
		want   string // output, or a part of the error
		fails  bool
	}{
		"relative":     {block{"volumes": []any{"local/data:/data"}}, "", "in data", false},
		"read only":    {block{"volumes": []any{"local/data:/data:ro"}}, "", "in data", false},
		"made":         {block{"volumes": []any{"local/new/dir:/data"}}, "", "", false},
		"of the group": {block{"volumes": []any{"../alloc/data:/data"}}, "", "shared", false},
		"link inside":  {block{"volumes": []any{"local/link:/data"}}, "data", "in data", false},
		"bind block": {block{"mount": []any{block{"type": "bind", "source": "local/data", "target": "/data", "readonly": true}}}, "",
			"in data", false},
		"mounts": {block{"mounts": []any{block{"type": "bind", "source": "local/data", "target": "/data"}}}, "", "in data", false},
		"tmpfs": {block{"mount": []any{block{"type": "tmpfs", "target": "/data",
			"tmpfs_options": block{"size": 1 << 20, "mode": 0o700}}}}, "", "", false},
		"own secrets":          {block{"volumes": []any{"secrets/data:/data"}}, "", "own secret", false},
		"tmp of the group":     {block{"volumes": []any{"../alloc/tmp:/data"}}, "", "", false},
		"the allocation":       {block{"volumes": []any{"..:/data"}}, "", notMountable, true},
		"the task's directory": {block{"volumes": []any{".:/data"}}, "", notMountable, true},
		"private":              {block{"volumes": []any{"private:/data"}}, "", notMountable, true},
		"shared directory":     {block{"volumes": []any{"../alloc:/data"}}, "", notMountable, true},
		"logs": {block{"mount": []any{block{"type": "bind", "source": "../alloc/logs", "target": "/data"}}}, "",
			notMountable, true},
		"logs, by data":      {block{"volumes": []any{"../alloc/data/../logs:/data"}}, "", notMountable, true},
		"secrets of another": {block{"volumes": []any{"../other/secrets:/data"}}, "", notMountable, true},
		"local of another":   {block{"volumes": []any{"../other/local:/data:ro"}}, "", notMountable, true},
		"link to a sibling":  {block{"volumes": []any{"local/link:/data"}}, "../../other/secrets", "a link leads out", true},
		"link to the logs":   {block{"volumes": []any{"local/link:/data"}}, "../../alloc/logs", "a link leads out", true},
		"link to private":    {block{"volumes": []any{"local/link:/data"}}, "../private", "a link leads out", true},
		"unknown mode":       {block{"volumes": []any{"local/data:/data:ro,exec"}}, "", `unknown mode "exec"`, true},
		"two modes":          {block{"volumes": []any{"local/data:/data:ro,rw"}}, "", "more than one mode for its access", true},
		"absolute":           {block{"volumes": []any{f.dir + ":/data"}}, "", "volumes are not enabled; cannot mount host path", true},
		"task directory":     {block{"volumes": []any{"x.conf:/etc/x.conf"}}, "", notMountable + `: write the file to "local/x.conf"`, true},
		"below task directory": {block{"mount": []any{block{"type": "bind", "source": "etc/x.conf", "target": "/x"}}}, "",
			`write the file to "local/etc/x.conf", with the destination of its template or artifact block, and mount that`, true},
		"dots":     {block{"volumes": []any{"../../..:/data"}}, "", "volumes are not enabled; cannot mount host path", true},
		"link out": {block{"volumes": []any{"local/link:/data"}}, f.dir, "a link leads out of the allocation's directory", true},
		"link out, relative": {block{"volumes": []any{"local/link:/data"}}, "../../../outside",
			"a link leads out of the allocation's directory", true},
		"below a link out": {block{"volumes": []any{"local/link/outside:/data"}}, f.dir,
			"a link leads out of the allocation's directory", true},
		"made below a link out": {block{"volumes": []any{"local/link/new:/data"}}, f.dir, "a link leads out of the allocation's directory", true},
		"bind block, link out": {block{"mount": []any{block{"type": "bind", "source": "local/link", "target": "/data"}}}, secret,
			"a link leads out of the allocation's directory", true},
		"bind block, absolute": {block{"mount": []any{block{"type": "bind", "source": "/etc", "target": "/data"}}}, "",
			`cannot mount host path: "/etc"`, true},
		"volume": {block{"mount": []any{block{"type": "volume", "source": "v", "target": "/data"}}}, "",
			`volumes are not enabled; cannot mount volume: "v"`, true},
		"default type": {block{"mount": []any{block{"source": "v", "target": "/data"}}}, "",
			`volumes are not enabled; cannot mount volume: "v"`, true},
		"volume driver": {block{"volumes": []any{"v:/data"}, "volume_driver": "local"}, "",
			`volumes are not enabled; cannot use volume driver "local"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell("cat /data/f", c.config))
			other := filepath.Join(cfg.AllocDir, "other")
			for _, dir := range []string{filepath.Join(cfg.LocalDir, "data"), filepath.Join(cfg.SharedDir, "data"),
				filepath.Join(cfg.SharedDir, "tmp"), filepath.Join(cfg.SecretsDir, "data"),
				filepath.Join(cfg.TaskDir, "private"), filepath.Join(other, "secrets"), filepath.Join(other, "local")} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			f.write(filepath.Join(cfg.LocalDir, "data"), "f", "in data")
			f.write(filepath.Join(cfg.SharedDir, "data"), "f", "shared")
			f.write(filepath.Join(cfg.SecretsDir, "data"), "f", "own secret")
			if c.link != "" {
				if err := os.Symlink(c.link, filepath.Join(cfg.LocalDir, "link")); err != nil {
					t.Fatal(err)
				}
			}
			_, err := f.StartTask(t.Context(), cfg)
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("StartTask() = %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f.wait(cfg.ID)
			if out, _ := f.output(cfg); out != c.want {
				t.Errorf("output = %q, want %q", out, c.want)
			}
			if err := f.DestroyTask(cfg.ID, true); err != nil {
				t.Error(err)
			}
		})
	}
}

// With volumes.enabled, paths of the node and volumes of the daemon are mounted.
func TestVolumesEnabled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"volumes": block{"enabled": true}})
	f.write(f.dir, "outside", "of the node")
	for name, config := range map[string]block{
		"absolute": {"volumes": []any{f.dir + ":/data:ro"}},
		"bind": {"mount": []any{block{"type": "bind", "source": f.dir, "target": "/data", "readonly": true,
			"bind_options": block{"propagation": "rprivate"}}}},
		"volume": {"mount": []any{block{"type": "volume", "source": "v1", "target": "/other",
			"volume_options": block{"labels": block{"a": "b"}, "no_copy": true}}}, "volumes": []any{f.dir + ":/data"}},
		"driver": {"mount": []any{block{"type": "bind", "source": f.dir, "target": "/data"}}, "volumes": []any{"v2:/other"},
			"volume_driver": "local"},
		"link out": {"volumes": []any{"local/link:/data"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell("cat /data/outside; if grep -q ' /other ' /proc/mounts; then echo x > /other/x; fi", config))
			if err := os.Symlink(f.dir, filepath.Join(cfg.LocalDir, "link")); err != nil {
				t.Fatal(err)
			}
			f.start(cfg)
			exit := f.wait(cfg.ID)
			if out, errs := f.output(cfg); out != "of the node" || exit.ExitCode != 0 {
				t.Errorf("exit = %+v, output %q, %q", exit, out, errs)
			}
		})
	}
}

// TestVolumes_MissingPath checks that volumes creates a missing path of the node, and mount does not.
func TestVolumes_MissingPath(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"volumes": block{"enabled": true}})
	missing := filepath.Join(f.dir, "missing")
	cfg := f.task(shell("true", block{"mount": []any{block{"type": "bind", "source": missing, "target": "/data"}}}))
	if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("StartTask() with a missing path in mount = %v", err)
	}
	f.run("true", block{"volumes": []any{missing + ":/data"}})
	if info, err := os.Stat(missing); err != nil || !info.IsDir() {
		t.Errorf("missing path in volumes: %v, %v, want a directory", info, err)
	}
}
