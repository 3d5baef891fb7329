package docker_test

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"os/exec"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// hostile is an image whose author gives harmless names the IDs of root. Its /etc/passwd is a link, and so is /var/run.
const hostile = "open-nomad/hostile:1"

// importHostile adds the image.
func (f *fixture) importHostile() {
	f.t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		f.t.Skip("needs busybox")
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	from := tar.NewReader(bytes.NewReader(testdocker.Root(f.t, busybox)))
	add := func(h *tar.Header, text io.Reader) {
		if err := w.WriteHeader(h); err != nil {
			f.t.Fatal(err)
		}
		if _, err := io.Copy(w, text); err != nil {
			f.t.Fatal(err)
		}
	}
	for {
		h, err := from.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			f.t.Fatal(err)
		}
		if h.Name != "etc/passwd" && h.Name != "etc/group" {
			add(h, from)
		}
	}
	file := func(name, text string) {
		add(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text))
	}
	add(&tar.Header{Name: "usr/lib/", Typeflag: tar.TypeDir, Mode: 0o755}, strings.NewReader(""))
	add(&tar.Header{Name: "run/", Typeflag: tar.TypeDir, Mode: 0o755}, strings.NewReader(""))
	add(&tar.Header{Name: "var/", Typeflag: tar.TypeDir, Mode: 0o755}, strings.NewReader(""))
	add(&tar.Header{Name: "var/run", Typeflag: tar.TypeSymlink, Linkname: "/run", Mode: 0o777}, strings.NewReader(""))
	for name, to := range map[string]string{"devices": "/dev", "keys": "bin/../proc/keys", "twice": "devices/../sys", "a": "/sh/q", "b": "a"} {
		add(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}, strings.NewReader(""))
	}
	add(&tar.Header{Name: "etc/passwd", Typeflag: tar.TypeSymlink, Linkname: "../usr/lib/passwd", Mode: 0o777}, strings.NewReader(""))
	file("usr/lib/passwd", "root:x:0:0::/:/bin/sh\napp:x:0:0::/:/bin/sh\nwheel:x:1001:0::/:/bin/sh\nweb:x:1002:1002::/:/bin/sh\nmember:x:1003:1003::/:/bin/sh\n")
	file("etc/group", "root:x:0:member\nappg:x:0:\nwebg:x:1002:\nmedia:x:44:web\n")
	if err := w.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.daemon.Import(f.t, hostile, out.Bytes(), "ENV PATH=/bin")
}

// restricted returns a task whose options give it the level restricted, as the client passes it on.
func (f *fixture) restricted(user string, config block) *drivers.TaskConfig {
	f.t.Helper()
	all := block{"image": "web:1", "cap_drop": []any{"all"}, "security_opt": []any{"no-new-privileges"}}
	maps.Copy(all, config)
	all["command"], all["args"] = "sleep", []any{"1000"}
	if all["image"] == "web:1" {
		all["image"] = testdocker.Image
	}
	cfg := f.task(all)
	cfg.User, cfg.Level = user, drivers.LevelRestricted
	i, err := f.Isolates(user, all)
	if err != nil {
		f.t.Fatal(err)
	}
	cfg.Isolation = i
	return cfg
}

// Whatever user the job writes, a container of level restricted is never root and never in root's group.
func TestUsersOfImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.importHostile()
	for name, c := range map[string]struct {
		user   string
		config block
		want   string // "user groups" in the kernel's view, or a part of the error
	}{
		"root by name":           {"app", nil, "has the user 0"},
		"group of the image":     {"1000:appg", nil, "has the group 0"},
		"group of the user":      {"wheel", nil, "has the group 0"},
		"group of the uid":       {"1001", nil, "has the group 0"},
		"listed in root's group": {"member", nil, "has the additional group 0"},
		"group_add":              {"web", block{"group_add": []any{"appg"}}, "has the additional group 0"},
		"sign":                   {"+0", nil, "neither a name nor a number"},
		"group with a sign":      {"1000:+0", nil, "neither a name nor a number"},
		"no such name":           {"nobody", nil, "no user nobody"},
		"name":                   {"web", nil, "1002:1002 44"},
		"name, more groups":      {"web", block{"group_add": []any{"webg", "7"}}, "1002:1002 7,44,1002"},
		"plain uid":              {"4711", nil, "4711:4711 "},
		"uid of the image":       {"1002", nil, "1002:1002 44"},
		"both":                   {"5:6", nil, "5:6 "},
		"member with a group":    {"member:1003", nil, "1003:1003 "},
	} {
		t.Run(name, func(t *testing.T) {
			config := block{"image": hostile}
			for key, value := range c.config {
				config[key] = value
			}
			cfg := f.restricted(c.user, config)
			h, err := f.StartTask(t.Context(), cfg)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("StartTask() = %v, want %q", err, c.want)
				}
				return
			}
			defer f.DestroyTask(cfg.ID, true)
			status, err := f.InspectTask(cfg.ID)
			if err != nil {
				t.Fatal(err)
			}
			got := f.inspect(status.Attributes["container_id"])
			if have := got.Config.User + " " + strings.Join(got.HostConfig.GroupAdd, ","); have != c.want || h.Lowered != "" {
				t.Errorf("the daemon got %q, lowered to %q, want %q", have, h.Lowered, c.want)
			}
		})
	}
}

// Without a level, a task has the user that its image defines, also root.
func TestRootOfImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.importHostile()
	cfg := f.task(shell("id -u; id -g; id -G", block{"image": hostile}))
	cfg.User = "wheel"
	f.start(cfg)
	f.wait(cfg.ID)
	if out, errs := f.output(cfg); out != "1001\n0\n0\n" {
		t.Errorf("output = %q, %q", out, errs)
	}
}

// A mount whose target leads through a link of the image is the one that was asked for.
func TestMountThroughLink(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.importHostile()
	cfg := f.restricted("web", block{"image": hostile, "volumes": []any{"local/x:/var/run/x:ro"}, "init": true,
		"mount": []any{block{"type": "tmpfs", "target": "/var/run/y"}}})
	if _, err := f.StartTask(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}

// Each fact that the kernel shows and that was not asked for is found, whatever the daemon reports.
func TestVerify(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"allow_privileged": true})
	for name, c := range map[string]struct {
		given func(*client.ContainerCreateOptions) // what the daemon does
		want  string                               // part of the error; "lowered" for a lower level
	}{
		"as asked":     {func(*client.ContainerCreateOptions) {}, ""},
		"root":         {func(o *client.ContainerCreateOptions) { o.Config.User = "+0" }, "Uid is 0, 7 was asked for"},
		"root's group": {func(o *client.ContainerCreateOptions) { o.Config.User = "7:-0" }, "Gid is 0, 8 was asked for"},
		"a group more": {func(o *client.ContainerCreateOptions) { o.HostConfig.GroupAdd = []string{"+0"} },
			"it has the additional group 0"},
		"new privileges": {func(o *client.ContainerCreateOptions) { o.HostConfig.SecurityOpt = []string{"no-new-privileges=f"} },
			`NoNewPrivs is "0"`},
		"capabilities":        {func(o *client.ContainerCreateOptions) { o.HostConfig.CapDrop = nil }, "CapBnd is"},
		"processes":           {func(o *client.ContainerCreateOptions) { o.HostConfig.PidMode = "host" }, "its pid namespace"},
		"memory of processes": {func(o *client.ContainerCreateOptions) { o.HostConfig.IpcMode = "host" }, "its ipc namespace"},
		"network":             {func(o *client.ContainerCreateOptions) { o.HostConfig.NetworkMode = "host" }, "its net namespace"},
		"host name": {func(o *client.ContainerCreateOptions) { o.HostConfig.UTSMode = "host"; o.Config.Hostname = "" },
			"its uts namespace"},
		"a mount more": {func(o *client.ContainerCreateOptions) { o.HostConfig.Binds = append(o.HostConfig.Binds, "/etc:/node") },
			`it has a mount at "/node"`},
		"a writable mount": {func(o *client.ContainerCreateOptions) { o.HostConfig.Binds = []string{f.dir + ":/x"} },
			`the mount at "/x" is writable`},
		"no filter": {func(o *client.ContainerCreateOptions) {
			o.HostConfig.SecurityOpt = append(o.HostConfig.SecurityOpt, "seccomp=unconfined")
		}, "seccomp (a filter of system calls)"},
		"no filter, no demand": {func(o *client.ContainerCreateOptions) {
			o.HostConfig.SecurityOpt = append(o.HostConfig.SecurityOpt, "seccomp=unconfined")
		}, "lowered"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := func() *client.ContainerCreateOptions {
				return &client.ContainerCreateOptions{Config: &container.Config{Image: testdocker.Image, User: "7:8", Cmd: []string{"sleep", "1000"}},
					HostConfig: &container.HostConfig{CapDrop: []string{"all"}, SecurityOpt: []string{"no-new-privileges"}, NetworkMode: "none",
						Binds:  []string{f.dir + ":/x:ro"},
						Mounts: []mount.Mount{{Type: mount.TypeTmpfs, Target: "/y"}}}}
			}
			given := asked()
			c.given(given)
			made, err := f.daemon.API.ContainerCreate(t.Context(), *given)
			if err != nil {
				t.Fatal(err)
			}
			defer f.daemon.API.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true})
			if _, err := f.daemon.API.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}); err != nil {
				t.Fatal(err)
			}
			i := drivers.Strictest()
			i.User = drivers.UserShared
			cfg := &drivers.TaskConfig{Name: "web", Isolation: i, Level: drivers.LevelRestricted}
			if c.want == "lowered" {
				cfg.Level = drivers.LevelHost
			}
			lowered, err := f.Verify(t.Context(), cfg, asked(), made.ID)
			switch {
			case c.want == "lowered":
				if err != nil || lowered != "host" {
					t.Errorf("Verify() = %q, %v, want host", lowered, err)
				}
			case (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want):
				t.Errorf("Verify() = %q, %v, want %q", lowered, err, c.want)
			}
		})
	}
}

// A container for which the daemon has stored something else is not started.
func TestStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	asked := func() *client.ContainerCreateOptions {
		return &client.ContainerCreateOptions{Config: &container.Config{Image: testdocker.Image, User: "7:8", Cmd: []string{"sleep"}},
			HostConfig: &container.HostConfig{CapAdd: []string{"chown"}, CapDrop: []string{"all"}, SecurityOpt: []string{"no-new-privileges"},
				NetworkMode: "none", GroupAdd: []string{"5"}}}
	}
	for name, edit := range map[string]func(*client.ContainerCreateOptions){
		"":             func(*client.ContainerCreateOptions) {},
		"user":         func(o *client.ContainerCreateOptions) { o.Config.User = "0" },
		"privileged":   func(o *client.ContainerCreateOptions) { o.HostConfig.Privileged = true },
		"cap_add":      func(o *client.ContainerCreateOptions) { o.HostConfig.CapAdd = []string{"net_admin"} },
		"cap_drop":     func(o *client.ContainerCreateOptions) { o.HostConfig.CapDrop = nil },
		"security_opt": func(o *client.ContainerCreateOptions) { o.HostConfig.SecurityOpt = nil },
		"group_add":    func(o *client.ContainerCreateOptions) { o.HostConfig.GroupAdd = []string{"0"} },
		"pid_mode":     func(o *client.ContainerCreateOptions) { o.HostConfig.PidMode = "host" },
		"ipc_mode":     func(o *client.ContainerCreateOptions) { o.HostConfig.IpcMode = "host" },
		"network_mode": func(o *client.ContainerCreateOptions) { o.HostConfig.NetworkMode = "host" },
	} {
		t.Run("other "+name, func(t *testing.T) {
			given := asked()
			edit(given)
			made, err := f.daemon.API.ContainerCreate(t.Context(), *given)
			if err != nil {
				t.Fatal(err)
			}
			defer f.daemon.API.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true})
			err = f.Stored(t.Context(), made.ID, asked())
			if (err == nil) != (name == "") || err != nil && !strings.Contains(err.Error(), "another "+name+" ") {
				t.Errorf("Stored() = %v", err)
			}
		})
	}
}
