package variable

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// agent is an agent with variables of one namespace. Paths in denied get status 403, those in broken 500.
type agent struct {
	vars           map[string]*api.Variable
	denied, broken string
	writes         int
	namespace      string // of the last request
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/var/")
	a.namespace = r.URL.Query().Get("namespace")
	stored := a.vars[path]
	switch {
	case path == a.denied:
		http.Error(w, "Permission denied", http.StatusForbidden)
	case path == a.broken:
		http.Error(w, "no cluster leader", http.StatusInternalServerError)
	case r.Method == http.MethodGet && stored == nil:
		http.Error(w, api.ErrVariableNotFound, http.StatusNotFound)
	case r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(stored) // a failed write fails the test
	case stored != nil && (stored.Lock != nil || r.URL.Query().Get("cas") == "0"):
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(stored)
	default:
		v := new(api.Variable)
		_ = json.NewDecoder(r.Body).Decode(v)
		a.vars[path], a.writes = v, a.writes+1
		_ = json.NewEncoder(w).Encode(v)
	}
}

// imports runs var import with the keys and returns the exit code and all output.
func (a *agent) imports(t *testing.T, export string, flags ...string) (int, string) {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	var out bytes.Buffer
	args := append([]string{"-address=" + server.URL}, flags...)
	code := importCommand().Adapt(strings.NewReader(export), &out, &out).Run(append(args, "-"))
	return code, out.String()
}

// export formats keys with values as Consul does. The keys alternate with their values.
func export(pairs ...string) string {
	var list []map[string]any
	for n := 0; n < len(pairs); n += 2 {
		list = append(list, map[string]any{"key": pairs[n], "flags": 0, "value": base64.StdEncoding.EncodeToString([]byte(pairs[n+1]))})
	}
	text, _ := json.MarshalIndent(list, "", "\t") // strings and numbers are always encoded
	return string(text)
}

// values returns the values of the stored variables by path.
func (a *agent) values() map[string]string {
	out := map[string]string{}
	for path, v := range a.vars {
		out[path] = v.Items["value"]
	}
	return out
}

func stored(value string) *api.Variable {
	return &api.Variable{Items: api.VariableItems{"value": value}, ModifyIndex: 7}
}

func TestImport(t *testing.T) {
	locked := stored("old")
	locked.Lock = &api.VariableLock{ID: "x"}
	for name, c := range map[string]struct {
		before map[string]*api.Variable
		export string
		flags  []string
		code   int
		out    []string
		after  map[string]string
	}{
		"new keys and a folder": {nil, export("app/", "", "app/v1.2/motd", "s3cret", "empty", ""), nil, 0,
			[]string{"2 created, 0 overwritten, 0 unchanged, 0 kept, 0 failed"}, map[string]string{"consul/app/v1~2E2/motd": "s3cret", "consul/empty": ""}},
		"kept": {map[string]*api.Variable{"consul/a": stored("old"), "consul/b": stored("s3cret")}, export("a", "s3cret", "b", "s3cret"), nil, 0,
			[]string{`kept    "a": the variable exists`, "0 created, 0 overwritten, 1 unchanged, 1 kept"},
			map[string]string{"consul/a": "old", "consul/b": "s3cret"}},
		"forced": {map[string]*api.Variable{"consul/a": stored("old"), "consul/b": stored("s3cret")}, export("a", "s3cret", "b", "s3cret"),
			[]string{"-force"}, 0, []string{"0 created, 1 overwritten, 1 unchanged, 0 kept"}, map[string]string{"consul/a": "s3cret", "consul/b": "s3cret"}},
		"locked": {map[string]*api.Variable{"consul/a": locked}, export("a", "s3cret", "b", "s3cret"), []string{"-force"}, 1,
			[]string{`failed  "a": the variable`, "is locked", "1 created", "1 failed"}, map[string]string{"consul/a": "old", "consul/b": "s3cret"}},
		"prefix": {nil, export("app/a", "1", "application", "2", "b", "3"), []string{"-prefix=app/"}, 0, []string{"1 created"},
			map[string]string{"consul/app/a": "1"}},
		"no such prefix": {nil, export("a", "1"), []string{"-prefix=b"}, 1, []string{`No key of the export begins with "b"`}, map[string]string{}},
		"dry run": {map[string]*api.Variable{"consul/a": stored("old"), "consul/b": stored("2")}, export("a", "1", "b", "2", "c", "3", "d//e", "4"),
			[]string{"-dry-run"}, 1, []string{"Nothing was written", "1 created, 0 overwritten, 1 unchanged, 1 kept, 1 failed"},
			map[string]string{"consul/a": "old", "consul/b": "2"}},
		"forced dry run": {map[string]*api.Variable{"consul/a": stored("old"), "consul/l": locked}, export("a", "1", "l", "1"),
			[]string{"-dry-run", "-force"}, 1, []string{"is locked", "0 created, 1 overwritten, 0 unchanged, 0 kept, 1 failed"},
			map[string]string{"consul/a": "old", "consul/l": "old"}},
		"denied": {nil, export("denied", "s3cret", "b", "1"), nil, 1, []string{`failed  "denied": `, "403", "1 created", "Keys that were not imported: 1"},
			map[string]string{"consul/b": "1"}},
		"no leader": {nil, export("a", "1", "broken", "s3cret", "c", "1"), nil, 1, []string{`Error importing key "broken"`, "500", "1 created"},
			map[string]string{"consul/a": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{vars: map[string]*api.Variable{}, denied: "consul/denied", broken: "consul/broken"}
			maps.Copy(a.vars, c.before)
			code, out := a.imports(t, c.export, append(c.flags, "-namespace=team")...)
			if code != c.code || strings.Contains(out, "s3cret") {
				t.Errorf("exit code %d, want %d, and no value in\n%s", code, c.code, out)
			}
			for _, want := range c.out {
				if !strings.Contains(out, want) {
					t.Errorf("the output has no %q:\n%s", want, out)
				}
			}
			if got := a.values(); !maps.Equal(got, c.after) {
				t.Errorf("stored are %q, want %q", got, c.after)
			}
			if name != "no such prefix" && a.namespace != "team" {
				t.Errorf("the namespace is %q", a.namespace)
			}
		})
	}
}

// Keys that no variable can have are listed, and the others are written.
func TestImport_Failures(t *testing.T) {
	limit := (64 << 10) - len("value")
	for name, c := range map[string]struct{ export, want string }{
		"long key":       {export(strings.Repeat("k", 129), "s3cret"), "is too long"},
		"empty segment":  {export("a//b", "s3cret"), "empty segment"},
		"folder value":   {export("a/", "s3cret"), "is a folder"},
		"no key":         {export("", "s3cret"), "the key is empty"},
		"large value":    {export("a", strings.Repeat("s3cret", limit)[:limit+1]), fmt.Sprintf("has %d bytes: the limit is %d", limit+1, limit)},
		"binary value":   {export("a", "s3cret\xff"), "value is not valid UTF-8"},
		"binary key":     {export("a\xff", "s3cret"), "key is not valid UTF-8"},
		"not base64":     {`[{"key":"a","flags":0,"value":"s3cret!"}]`, "not base64"},
		"twice":          {export("good", "1", "good", "s3cret"), "more than once"},
		"hostile in key": {export("\x1b[2J//", "s3cret"), `"\x1b[2J//"`},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{vars: map[string]*api.Variable{}}
			list := strings.TrimSuffix(c.export, "]") + `,{"key":"last","flags":42,"value":""}]`
			code, out := a.imports(t, list)
			if code != 1 || !strings.Contains(out, c.want) || !strings.Contains(out, "1 failed") || strings.Contains(out, "s3cret") {
				t.Errorf("exit code %d, want 1 and %q in\n%s", code, c.want, out)
			}
			if _, ok := a.vars["consul/last"]; !ok || !strings.Contains(out, "variables do not have: 1") {
				t.Errorf("the last key is not stored, or its flags are not mentioned:\n%s", out)
			}
		})
	}
	a := &agent{vars: map[string]*api.Variable{}}
	if code, out := a.imports(t, export("fits", strings.Repeat("x", limit))); code != 0 || a.writes != 1 {
		t.Errorf("a value of the maximum size: exit code %d\n%s", code, out)
	}
}

// A file that is not an export is refused before anything is written, without a part of it in the error.
func TestImport_NotAnExport(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":       {"", "invalid JSON at byte 0"},
		"not JSON":    {"s3cret", "invalid JSON at byte 1"},
		"an object":   {`{"a":"s3cret"}`, "wrong type at byte"},
		"wrong value": {`[{"key":"a","value":""},{"key":"b","value":5318008}]`, "wrong type at byte"},
		"truncated":   {export("a", "s3cret")[:20], "invalid JSON at byte 20"},
		"too large":   {strings.Repeat(" ", maxExport+1), "larger than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{vars: map[string]*api.Variable{}}
			code, out := a.imports(t, c.text)
			if code != 1 || a.writes > 0 || !strings.Contains(out, c.want) || strings.Contains(out, "s3cret") || strings.Contains(out, "5318008") {
				t.Errorf("exit code %d, %d writes, want %q in %q", code, a.writes, c.want, out)
			}
		})
	}
}

// The export is read from a file, too. A key does not print its value.
func TestImport_File(t *testing.T) {
	a := &agent{vars: map[string]*api.Variable{}}
	server := httptest.NewServer(a)
	defer server.Close()
	name := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(name, []byte(export("a", "1")), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := importCommand().Adapt(nil, &out, &out).Run([]string{"-address=" + server.URL, name}); code != 0 || a.values()["consul/a"] != "1" {
		t.Errorf("exit code %d, stored are %q\n%s", code, a.values(), out.String())
	}
	x := exported{Key: "a", Value: "s3cret"}
	if text := fmt.Sprintf("%v %+v %#v %s", x, x, x, x); strings.Contains(text, "s3cret") {
		t.Errorf("the key prints its value: %s", text)
	}
}
