package security_test

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// plant changes the directories of a task so that processes that read them for others may be
// misled.
const plant = `
cd $NOMAD_TASK_DIR; echo secret-word > $NOMAD_SECRETS_DIR/own
ln -s / root; ln -s /etc/shadow shadow; ln -s ../secrets sec; ln -s ../secrets/own own; ln -s /proc/self/environ env; ln -s loop loop
mkfifo fifo; mkdir deep; ln -s ../../../../../etc deep/up; echo '<script>alert(1)</script>' > page.html; cp page.html page; cp page.html page.svg; cp page.html page.xhtml
printf '{"a":"<script>"}' > data.json
cd $NOMAD_ALLOC_DIR; ln -s /etc/shadow data/shadow; mkfifo data/fifo; ln -s /etc logs/etc
ln -s /etc/shadow logs/ghost.stdout.0; ln -s /etc/shadow logs/t.stdout.5; mkfifo logs/t.stderr.1; mkdir logs/t.stdout.7
ln -s $NOMAD_TASK_DIR/victimfile logs/t.stdout.1
echo '<script>alert(2)</script>'; echo planted; sleep 600`

// The file routes of an allocation serve nothing else, never hang on planted files, and serve
// nothing that a browser would run.
func TestFileRoutesStayInside(t *testing.T) {
	a, _ := harness.SandboxAgent(t)
	h := harness.Register(t, a, harness.OneTask("planter", "/bin/sh", "-c", plant), "running")
	harness.Within(t, 10*time.Second, "the task has planted", func() bool { return strings.Contains(harness.Log(a, h), "planted") })
	hidden := []string{"../", "../..", "../../client/state.db", "../../../../../../etc/shadow", "..%2f..%2fclient%2fstate.db", "t/../../x",
		"/etc/shadow", "//etc/shadow", "t/local/../../../x",
		"t/secrets/own", "t/secrets", "t/secrets/", "t//secrets/own", "t/./secrets/own", "t/local/../secrets/own", "alloc/../t/secrets/own",
		"/t/secrets/own", "t/SECRETS/own", "t/Secrets/own",
		"t/\u017fecrets/own", "t/secrets\u200b/own", "t/secrets./own", "t/secrets /own", "t/ｓｅｃｒｅｔｓ/own", "t/private",
		"t/PRIVATE/x", "t/private/.nomad-mount",
		"t/local/root/etc/shadow", "t/local/shadow", "t/local/sec/own", "t/local/own", "t/local/env", "t/local/loop", "t/local/deep/up/shadow",
		"t/local/fifo", "alloc/data/shadow", "alloc/data/fifo", "alloc/logs/etc/shadow", "alloc/logs/ghost.stdout.0", "alloc/logs/t.stdout.5",
		"alloc/logs/t.stderr.1", "alloc/logs/t.stdout.7",
		"t/local/page.html\x00.txt", "\x00", "t/local\\..\\secrets\\own", strings.Repeat("a/", 3000), strings.Repeat("x", 5000),
		"proc/self/environ", "\xff\xfe", "t/%73ecrets/own"}
	for _, route := range []string{"ls", "stat", "cat", "readat", "stream"} {
		for _, path := range hidden {
			askFile(t, a, route, h.ID, path, func(code int, body string) {
				listed := route == "ls" || route == "stat"
				switch {
				case strings.Contains(body, "root:") || strings.Contains(body, "secret-word") || strings.Contains(body, "HOME=") ||
					code == http.StatusOK && strings.Contains(body, `"own"`) && path != "t/local/own":
					t.Errorf("%s %q shows content: %d %.200q", route, path, code, body)
				case code == http.StatusOK && listed && !strings.Contains(path, "secrets") && !strings.Contains(path, ".."):
					// A link or a pipe may be described, but not followed.
				case code != http.StatusForbidden && code != http.StatusNotFound && code != http.StatusBadRequest &&
					!(code == http.StatusOK && body == ""):
					t.Errorf("%s %q = %d %.200q, want 403, 404 or 400", route, path, code, body)
				}
			})
		}
	}
	inert(t, a, h)
}

// askFile requests one file route. A stream that stays open is cut off.
func askFile(t *testing.T, a *cluster.Agent, route, alloc, path string, check func(code int, body string)) {
	t.Helper()
	u := a.Address() + "/v1/client/fs/" + route + "/" + alloc + "?follow=false&offset=0&limit=100&path=" + url.QueryEscape(path)
	code, body, _ := harness.Fetch(t, http.DefaultClient, "GET", u, "")
	check(code, body)
}

// inert checks how pages of a task are served.
func inert(t *testing.T, a *cluster.Agent, h *api.AllocationListStub) {
	t.Helper()
	fs := a.Address() + "/v1/client/fs/"
	for _, u := range []string{"cat/" + h.ID + "?path=t/local/page.html", "cat/" + h.ID + "?path=t/local/page",
		"cat/" + h.ID + "?path=t/local/page.svg", "cat/" + h.ID + "?path=t/local/page.xhtml",
		"cat/" + h.ID + "?path=t/local/data.json", "readat/" + h.ID + "?offset=0&path=t/local/page.html",
		"stream/" + h.ID + "?follow=false&path=t/local/page.html",
		"logs/" + h.ID + "?plain=true&task=t&type=stdout", "logs/" + h.ID + "?task=t&type=stdout",
		"cat/" + h.ID + "?path=t/local/none%3Cscript%3E",
		"logs/" + h.ID + "?task=%3Cscript%3E&type=stdout", "ls/" + h.ID + "?path=/t/local"} {
		_, body, head := harness.Fetch(t, http.DefaultClient, "GET", fs+u, "")
		kind := head.Get("Content-Type")
		if body == "" || !strings.HasPrefix(kind, "text/plain") && !strings.HasPrefix(kind, "application/json") ||
			head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s is served as %q, nosniff %q: %.100q", u, kind, head.Get("X-Content-Type-Options"), body)
		}
	}
}

// A task replaces its log files, its secrets and its mounts with links, pipes and directories. Root
// must not write, read or delete elsewhere, and the directories of the task are removed with it.
func TestPlantedFiles(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	target := filepath.Join(a.Dir, "target")
	if err := os.MkdirAll(target+"/keep", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/file", "/keep/file"} {
		harness.WriteFile(t, target+name, "untouched")
	}
	for _, name := range []string{target, target + "/keep"} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	script := `T=` + target + `
cd $NOMAD_SECRETS_DIR && rm -f .nomad-mount nomad_token api.sock && ln -s $T/file nomad_token && ln -s $T/file api.sock
cd $NOMAD_TASK_DIR && ln -s $T link && ln -s $T/keep x && i=0 && d=. && while [ $i -lt 300 ]; do d=$d/d; mkdir $d || break; i=$((i+1)); done
mkdir -p locked/in && chmod 0 locked
cd $NOMAD_ALLOC_DIR/logs && for i in 1 2 3; do ln -s $T/file t.stdout.$i; ln -s $T t.stderr.$i; done
rm -f t.stdout.0; mv ../logs ../logs2; ln -s $T ../logs
rm -rf $NOMAD_SECRETS_DIR/../secrets; mv $NOMAD_TASK_DIR $NOMAD_TASK_DIR.moved; ln -s $T $NOMAD_TASK_DIR
[ -e $NOMAD_ALLOC_DIR/data/second ] || { : > $NOMAD_ALLOC_DIR/data/second; echo first; exit 1; }
head -c 3000000 /dev/zero | tr '\0' x; echo; echo second; sleep 600`
	job := harness.OneTask("planter", "/bin/sh", "-c", script)
	one, five, delay, files, size, cpu := 1, 5*time.Minute, 10*time.Millisecond, 3, 1, 2000
	tg := job.TaskGroups[0]
	tg.RestartPolicy.Attempts, tg.RestartPolicy.Interval, tg.RestartPolicy.Delay = &one, &five, &delay
	tg.Tasks[0].LogConfig = &api.LogConfig{MaxFiles: &files, MaxFileSizeMB: &size}
	tg.Tasks[0].Resources.CPU = &cpu
	tg.Tasks[0].Identities = []*api.WorkloadIdentity{{Name: "default", File: true}}
	h := harness.Register(t, a, job, "running")
	harness.Within(t, 20*time.Second, "the second start has written its log", func() bool {
		_, last, _ := harness.Fetch(t, http.DefaultClient, "GET",
			a.Address()+"/v1/client/fs/logs/"+h.ID+"?plain=true&origin=end&offset=30&task=t&type=stdout", "")
		return strings.Contains(last, "second")
	})
	if _, _, err := a.Client.Jobs().Deregister("planter", true, nil); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, 20*time.Second, "the allocation is collected", func() bool {
		if err := a.Client.System().GarbageCollect(); err != nil {
			t.Fatal(err)
		}
		_, err := os.Lstat(filepath.Join(data, "alloc", h.ID))
		return os.IsNotExist(err)
	})
	for _, name := range []string{"/file", "/keep/file"} {
		if got := harness.Content(t, target+name); got != "untouched" {
			t.Errorf("%s = %.100q", target+name, got)
		}
	}
	if e, _ := os.ReadDir(target); len(e) != 2 {
		t.Errorf("something was written to %s: %v", target, e)
	}
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	for s := bufio.NewScanner(mounts); s.Scan(); {
		if strings.Contains(s.Text(), h.ID) {
			t.Errorf("still mounted: %s", s.Text())
		}
	}
}
