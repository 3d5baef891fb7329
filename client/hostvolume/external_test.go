package hostvolume_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/hostvolume"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// makes creates a directory, and records its environment and argument.
const makes = `
export -p | sed 's/^export //' | grep -v '^\(PWD\|OLDPWD\|SHLVL\|_\)=' > PLUGINS/.env
echo "$1" > PLUGINS/.arg
case $1 in
fingerprint) echo '{"version": "1.2.3"}' ;;
create) mkdir -p $DHV_VOLUMES_DIR/$DHV_VOLUME_ID; echo "{\"path\": \"$DHV_VOLUMES_DIR/$DHV_VOLUME_ID\", \"bytes\": 5000}" ;;
delete) rm -rf "$DHV_CREATED_PATH"; echo ignored ;;
esac
`

func external(id string) message.ClientHostVolumeCreateRequest {
	req := mkdirRequest("data", map[string]string{"a": "b"})
	req.PluginID, req.Namespace, req.RequestedCapacityMinBytes, req.RequestedCapacityMaxBytes = id, "ns", 1, 9
	return req
}

// called returns the argument and the environment of the last call.
func (w *world) called() []string {
	w.t.Helper()
	arg, err := os.ReadFile(filepath.Join(w.plugins, ".arg"))
	if err != nil {
		w.t.Fatal(err)
	}
	env, err := os.ReadFile(filepath.Join(w.plugins, ".env"))
	if err != nil {
		w.t.Fatal(err)
	}
	return append([]string{strings.TrimSpace(string(arg))}, strings.Split(strings.TrimSpace(string(env)), "\n")...)
}

func TestExternalPlugin(t *testing.T) {
	t.Setenv("SECRET_OF_AGENT", "hidden")
	w := newWorld(t)
	w.script("makes", makes)
	if got := w.Fingerprint(t.Context()); len(got) != 2 || got["plugins.host_volume.makes.version"] != "1.2.3" ||
		got["plugins.host_volume.mkdir.version"] != "0.0.1" {
		t.Errorf("Fingerprint() = %v\n%s", got, w.logged)
	}
	if got := w.called(); !slices.Equal(got, []string{"fingerprint", "DHV_OPERATION='fingerprint'"}) {
		t.Errorf("fingerprint was called with %q", got)
	}
	req := external("makes")
	got, err := w.create(req)
	path := filepath.Join(w.dir, req.ID)
	if err != nil || got.HostPath != path || got.CapacityBytes != 5000 {
		t.Fatalf("Create() = %+v, %v", got, err)
	}
	want := []string{"create", "DHV_CAPACITY_MAX_BYTES='9'", "DHV_CAPACITY_MIN_BYTES='1'", "DHV_NAMESPACE='ns'", "DHV_NODE_ID='node-1'",
		"DHV_NODE_POOL='pool-1'",
		"DHV_OPERATION='create'", `DHV_PARAMETERS='{"a":"b"}'`, "DHV_PLUGIN_DIR='" + w.plugins + "'", "DHV_VOLUMES_DIR='" + w.dir + "'",
		"DHV_VOLUME_ID='" + req.ID + "'", "DHV_VOLUME_NAME='data'"}
	if got := w.called(); !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("create was called with\n%q, want\n%q", sorted(got), sorted(want))
	}
	if err := w.Delete(t.Context(),
		&message.ClientHostVolumeDeleteRequest{ID: req.ID, Name: "data", PluginID: "makes", Namespace: "ns", HostPath: path}); err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(s string) bool { return strings.Contains(s, "CAPACITY") })
	for i, s := range want {
		want[i] = strings.NewReplacer("create", "delete", `{"a":"b"}`, "null").Replace(s)
	}
	if got := w.called(); !slices.Equal(sorted(got), sorted(append(want, "DHV_CREATED_PATH='"+path+"'"))) {
		t.Errorf("delete was called with %q", got)
	}
	if only(t, w.dir) != "[]" {
		t.Errorf("%s remains", only(t, w.dir))
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// A file that is not a usable plugin is named in the log, and the others are used.
func TestUnusablePlugins(t *testing.T) {
	w := newWorld(t)
	w.script("good", makes)
	w.script("rubbish", "echo hello")
	w.script("fails", `echo '{"error": "no disk"}'; exit 3`)
	w.script("noisy", "echo reason >&2; exit 4")
	w.script("endless", "while :; do echo 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'; done")
	w.script("mkdir", makes)
	w.script("na me", makes)
	w.script("plain", makes)
	w.script("open", makes)
	if err := os.Chmod(filepath.Join(w.plugins, "plain"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(w.plugins, "open"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.plugins, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/echo", filepath.Join(w.plugins, "link")); err != nil {
		t.Fatal(err)
	}
	got := w.Fingerprint(t.Context())
	if len(got) != 2 || got["plugins.host_volume.good.version"] == "" {
		t.Errorf("Fingerprint() = %v", got)
	}
	for id, text := range map[string]string{
		"rubbish": `printed \"hello\\n\" for the call \"fingerprint\": change ` + w.plugins + `/rubbish so that it prints`,
		"fails":   "exit status 3: no disk", "noisy": "exit status 4: reason", "endless": "printed more than 65536 bytes and was killed",
		"plain": "is not executable: run chmod +x", "open": "run chmod o-w", "folder": "is not a regular file", "link": "passes through a link",
	} {
		if !slices.ContainsFunc(strings.Split(w.logged.String(), "\n"), func(l string) bool {
			return strings.Contains(l, "plugin="+id+" ") && strings.Contains(strings.ReplaceAll(l, `\\\`, `\`), text)
		}) {
			t.Errorf("%s: the log lacks %q:\n%s", id, text, w.logged)
		}
	}
	for _, file := range []string{"mkdir", "na me"} {
		if !strings.Contains(w.logged.String(), "file="+file) && !strings.Contains(w.logged.String(), `file="`+file) {
			t.Errorf("%s is not in the log", file)
		}
	}
}

// No plugin ID leads to a file outside the plugin directory.
func TestPluginIDs(t *testing.T) {
	w := newWorld(t)
	secret := filepath.Join(t.TempDir(), "sh")
	if err := os.WriteFile(secret, []byte("#!/bin/sh\ntouch "+secret+".ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(w.plugins, "link")); err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(w.plugins, secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{rel, secret, "..", ".", "", "link", "x/", "a/b", "link\x00", ".hidden", "none", strings.Repeat("x", 65)} {
		if _, err := w.create(external(id)); err == nil {
			t.Errorf("create with plugin %q succeeded", id)
		}
		err := w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: external("").ID, Name: "x", PluginID: id})
		if err == nil && id != "" {
			t.Errorf("delete with plugin %q succeeded", id)
		}
	}
	if _, err := os.Stat(secret + ".ran"); err == nil {
		t.Error("a file outside the plugin directory was run")
	}
}

func TestCreateAnswers(t *testing.T) {
	w := newWorld(t)
	for id, c := range map[string]struct{ body, want string }{
		"text":     {"echo hello", `printed "hello\n" for the call "create"`},
		"relative": {`echo '{"path": "x"}'`, "an absolute path"},
		"empty":    {"", `prints {"path"`},
		"climbs":   {`echo '{"path": "/tmp/../etc"}'`, "an absolute path"},
		"negative": {`echo '{"path": "/tmp", "bytes": -1}'`, "bytes that are not negative"},
		"missing":  {`echo '{"path": "/does/not/exist"}'`, "no such file"},
		"fails":    {`echo '{"error": "disk is full"}'; exit 1`, "exit status 1: disk is full"},
	} {
		w.script(id, c.body)
		_, err := w.create(external(id))
		fails(t, id, err, c.want, `with plugin "`+id+`"`)
	}
	if len(w.Volumes()) != 0 {
		t.Errorf("the node has %v", w.Volumes())
	}
	// Those whose delete succeeds leave no record.
	if n := len(w.store.rows); n != 1 {
		t.Errorf("%d records remain, want the one of the plugin that also fails to delete", n)
	}
}

// A plugin that hangs is killed at the limit, with its descendants.
func TestHangingPlugin(t *testing.T) {
	w := newWorld(t)
	w.limit = 300 * time.Millisecond
	w.restart()
	pids := filepath.Join(w.plugins, ".pids")
	w.script("hangs", "sleep 1000 & echo $$ $! >> "+pids+"; wait")
	if got := w.Fingerprint(t.Context()); len(got) != 1 {
		t.Errorf("Fingerprint() = %v", got)
	}
	_, err := w.create(external("hangs"))
	fails(t, "create", err, `call "create" of host volume plugin "hangs" failed`,
		"did not end within 300ms and was killed with its process group")
	text, err := os.ReadFile(pids)
	if err != nil || len(strings.Fields(string(text))) < 4 {
		t.Fatalf("the plugin ran as %q, %v", text, err)
	}
	for _, pid := range strings.Fields(string(text)) {
		testpace.Until(t, "process "+pid+" ended", func() bool { return ended(pid) })
	}
	// The delete hangs too: the record stays, so that the next start tries again.
	if len(w.store.rows) != 1 {
		t.Errorf("%d records remain", len(w.store.rows))
	}
	w.script("hangs", makes)
	w.restart()
	if err := w.Restore(t.Context()); err != nil || len(w.store.rows) != 0 || only(t, w.dir) != "[]" {
		t.Errorf("Restore() = %v, %d records, %s", err, len(w.store.rows), only(t, w.dir))
	}
}

// ended reports whether a process is gone, or a zombie that nobody waits for.
func ended(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestRestore(t *testing.T) {
	w := newWorld(t)
	w.script("makes", makes)
	w.script("gone", makes)
	kept, external1, lost := mkdirRequest("kept", nil), external("makes"), external("gone")
	lost.Name = "lost"
	for _, req := range []message.ClientHostVolumeCreateRequest{kept, external1, lost} {
		if _, err := w.create(req); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(w.plugins, "gone")); err != nil {
		t.Fatal(err)
	}
	half := mkdirRequest("half", nil)
	w.store.rows[half.ID] = message.ClientHostVolumeState{ID: half.ID, CreateReq: &half, Unfinished: true}
	w.store.rows["old"] = message.ClientHostVolumeState{ID: "old"}
	if err := os.Mkdir(filepath.Join(w.dir, half.ID), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(w.dir, kept.ID)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	err := w.Restore(t.Context())
	fails(t, "Restore", err, `no host volume plugin "gone"`, "host volume old of the client state has no request")
	if v := w.Volumes(); len(v) != 2 || v["kept"] == nil || v["data"] == nil {
		t.Errorf("the node has %v", v)
	}
	if _, err := os.Stat(filepath.Join(w.dir, kept.ID)); err != nil {
		t.Errorf("the directory was not created again: %v", err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, half.ID)); err == nil || w.store.rows[half.ID].ID != "" {
		t.Error("the interrupted volume remains")
	}
	if got := w.called(); got[0] != "create" {
		t.Errorf("the plugin was called with %q", got)
	}
}

// A volume has one operation at a time.
func TestOneOperationAtATime(t *testing.T) {
	w := newWorld(t)
	w.script("waits", `mkdir -p $DHV_VOLUMES_DIR; touch $DHV_PLUGIN_DIR/.began; while [ ! -e $DHV_PLUGIN_DIR/.go ]; do sleep 0.01; done; echo '{"path": "/tmp"}'`)
	req := external("waits")
	done := make(chan error, 1)
	go func() { _, err := w.create(req); done <- err }()
	testpace.Until(t, "the plugin began", func() bool { _, err := os.Stat(filepath.Join(w.plugins, ".began")); return err == nil })
	_, err := w.create(req)
	fails(t, "second create", err, `another operation on volume "data"`, req.ID)
	fails(t, "delete", w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: req.ID, Name: "data"}), "another operation")
	if err := os.WriteFile(filepath.Join(w.plugins, ".go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNoPluginDirectory(t *testing.T) {
	w := newWorld(t)
	w.plugins = filepath.Join(w.plugins, "none")
	w.restart()
	if got := w.Fingerprint(t.Context()); len(got) != 1 || got["plugins.host_volume."+hostvolume.MkdirID+".version"] == "" ||
		w.logged.Len() > 0 {
		t.Errorf("Fingerprint() = %v, logged %s", got, w.logged)
	}
	_, err := w.create(external("default"))
	fails(t, "create", err, `no host volume plugin "default": use "mkdir", or put an executable of that name into`)
}

// An update of a volume that exists deletes nothing when the plugin fails, also if the agent has not restored the volume
// or has lost its state. Only a new volume is removed again.
func TestFailedUpdateKeepsTheVolume(t *testing.T) {
	const fails = "echo broken >&2; exit 1"
	for name, c := range map[string]struct {
		prepare func(w *world, req *message.ClientHostVolumeCreateRequest)
		kept    bool
	}{
		"restored": {func(w *world, _ *message.ClientHostVolumeCreateRequest) {
			w.restart()
			if err := w.Restore(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}, true},
		"not restored yet": {func(w *world, _ *message.ClientHostVolumeCreateRequest) { w.restart() }, true},
		"restore failed": {func(w *world, _ *message.ClientHostVolumeCreateRequest) {
			w.script("makes", fails)
			w.restart()
			if err := w.Restore(w.t.Context()); err == nil {
				w.t.Error("Restore() of a failing plugin succeeded")
			}
		}, true},
		"state lost, update": {func(w *world, req *message.ClientHostVolumeCreateRequest) {
			clear(w.store.rows)
			w.restart()
			req.Update = true
		}, true},
		"unfinished": {func(w *world, req *message.ClientHostVolumeCreateRequest) {
			row := w.store.rows[req.ID]
			row.Unfinished = true
			w.store.rows[req.ID] = row
			w.restart()
		}, false},
		"state lost, new": {func(w *world, _ *message.ClientHostVolumeCreateRequest) {
			clear(w.store.rows)
			w.restart()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.script("makes", makes)
			req := external("makes")
			if _, err := w.create(req); err != nil {
				t.Fatal(err)
			}
			before := w.called()
			c.prepare(w, &req)
			w.script("makes", `echo "$1" >> PLUGINS/.again; if [ "$1" = create ]; then exit 1; fi`)
			if _, err := w.create(req); err == nil {
				t.Fatal("a failing plugin created a volume")
			}
			again, err := os.ReadFile(filepath.Join(w.plugins, ".again"))
			if err != nil {
				t.Fatal(err)
			}
			if deleted := strings.Contains(string(again), "delete"); deleted == c.kept {
				t.Errorf("after %q the plugin was called with %q", before, again)
			}
			if _, stored := w.store.rows[req.ID]; stored != (c.kept && name != "state lost, update") {
				t.Errorf("the record is stored: %v", stored)
			}
		})
	}
}
