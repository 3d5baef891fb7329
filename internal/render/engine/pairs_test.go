package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testvars"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

func setKey(vars *testvars.Server, path, value string) {
	vars.Set("consul/"+path, map[string]string{"value": value})
}

// The functions of keys, with keys that exist and keys that do not.
func TestKeys(t *testing.T) {
	w := newWorld(t)
	setKey(w.vars, "app/port", "80")
	setKey(w.vars, "app/empty", "")
	setKey(w.vars, "app/a~2Eb/~2E~2E/x", "dots")
	w.vars.Set("consul/app/other", map[string]string{"password": "not a key"})
	p := start(t, w.withConsul(
		`{{ key "app/port" }} {{ key "/app/port@dc1" }} {{ key "app/port?ns=default" }}`,
		`{{ key "app/empty" }}|{{ key "" }}|{{ key "app/a.b/../x" }}`,
		`{{ keyExists "app/port" }} {{ keyExists "app/none" }} {{ keyExists "app/other" }} {{ keyExists "" }}`,
		`{{ keyOrDefault "app/port" "1" }} {{ keyOrDefault "app/none" "2" }} {{ keyOrDefault "app/empty" "3" }} {{ keyOrDefault "" "4" }}`,
		`{{ with keyExistsGet "app/port" }}{{ .Exists }} {{ .Key }} {{ .Path }} {{ .Value }} {{ gt .ModifyIndex 0 }}{{ end }}`,
		`{{ with keyExistsGet "app/none" }}{{ .Exists }}[{{ .Value }}]{{ end }}`))
	p.rendersFirst("80 80 80", "||dots", "true false false false", "80 2 3 4", "true app/port app/port 80 true", "false[]")
}

// A key is awaited by its name, followed, and kept when it is deleted.
func TestKeyFollows(t *testing.T) {
	w := newWorld(t)
	p := start(t, w.withConsul(`{{ key "app/late" }}`, `{{ if keyExists "app/late" }}there{{ else }}not there{{ end }}`,
		`{{ range safeLs "app/list/" }}{{ .Key }} {{ end }}`, `{{ range safeTree "app/tree" }}{{ .Key }} {{ end }}`))
	p.until("the missing data is named", func() bool {
		return len(p.missing) > 0 && fmt.Sprint(p.missing[len(p.missing)-1].Names) ==
			"[kv.block(app/late) kv.list(app/list/) kv.list(app/tree)]"
	})
	setKey(w.vars, "app/late", "one")
	setKey(w.vars, "app/list/x", "")
	setKey(w.vars, "app/tree/x/y", "")
	p.until("all are rendered", func() bool {
		return p.last(0) == "one" && p.last(1) == "there" && p.last(2) == "x " && p.last(3) == "x/y "
	})
	setKey(w.vars, "app/late", "two")
	p.until("a change arrives", func() bool { return p.last(0) == "two" })
	w.vars.Delete("consul/app/late")
	p.until("the deletion arrives", func() bool { return p.last(1) == "not there" })
	p.until("the key has its last value after its deletion", func() bool { return p.last(0) == "two" })
}

// Prefixes have the meaning of Consul: the beginning of a key, not a directory.
func TestTree(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"app/z", "app/a/one", "app/a/two", "apple", "app/~C3~A9", "other"} {
		setKey(w.vars, path, "of "+path)
	}
	w.vars.Set("consul/app/password", map[string]string{"password": canary})
	w.vars.Set("nomad/jobs/app", map[string]string{"value": canary})
	const list = `{{ range %s }}{{ .Key }},{{ end }}`
	p := start(t, w.withConsul(
		fmt.Sprintf(list, `tree "app/"`), fmt.Sprintf(list, `ls "app/"`), fmt.Sprintf(list, `tree "app"`), fmt.Sprintf(list, `ls "/app/a"`),
		fmt.Sprintf(list, `tree "app/none"`), fmt.Sprintf(list, `ls ""`), fmt.Sprintf(list, `tree "/"`), fmt.Sprintf(list, `safeLs "app/a/@dc1"`),
		`{{ range tree "app/a" }}{{ .Path }}={{ .Value }} {{ gt .CreateIndex 0 }} {{ end }}`,
		`{{ range $top, $pairs := tree "app/" | byKey }}{{ $top }}:{{ range $key, $pair := $pairs }}{{ $key }}={{ $pair.Value }};{{ end }}{{ end }}`,
		`{{ with tree "app/" | explode }}{{ .a.one }} {{ .z }}{{ end }}`,
		`{{ tree "app/a/" | explode | toJSON }}`))
	p.rendersFirst("a/one,a/two,z,é,", "z,é,", "a/one,a/two,z,é,le,", "one,two,", "", "", "app/a/one,app/a/two,app/z,app/é,apple,other,", "one,two,",
		"app/a/one=of app/a/one true app/a/two=of app/a/two true ", "a:one=of app/a/one;two=of app/a/two;", "of app/a/one of app/z",
		`{"one":"of app/a/one","two":"of app/a/two"}`)
	if n := w.vars.Reads(); n > 2*8 {
		t.Errorf("%d requests for 8 prefixes", n)
	}
}

// What the identity may not read is an error that names the remedy, and no value.
func TestRefusedReads(t *testing.T) {
	t.Parallel() // it mostly waits
	for text, want := range map[string]string{
		`{{ key "a" }}`:                 "kv.block(a): the API returned status 403: Permission denied : the task's identity may not read variables",
		`{{ keyOrDefault "a" "b" }}`:    "kv.get(a): the API returned status 403",
		`{{ tree "a@dc1" }}`:            "kv.list(a@dc1): the API returned status 403",
		`{{ tree "a?ns=prod" }}`:        `kv.list(a@ns=prod): the API returned status 403: Permission denied : the task's identity may not read variables below consul/ of namespace "prod": attach a policy with read and list of the path "consul/*" to the job, with "nomad acl policy apply -job". Tasks of a region without Consul (server.services.consul)`,
		`{{ service "web" }}`:           `health.service(web|passing): the API returned status 403: Permission denied : the task's identity may not read services of namespace "default": attach a policy with read-job to the job`,
		`{{ services }}`:                "catalog.services: the API returned status 403",
		`{{ services "?ns=prod" }}`:     "catalog.services(@ns=prod): the API returned status 403",
		`{{ service "v1.web~_agent" }}`: "health.service(v1.web~_agent|passing): the API returned status 403",
	} {
		w := newWorld(t)
		for _, path := range []string{"/v1/var/consul/a", "/v1/vars/tree", "/v1/services", instancesOfWeb} {
			w.vars.Refuse(path)
		}
		if f := failing(t, w.withConsul(text)); !strings.HasPrefix(f.Text, want) {
			t.Errorf("%s: %+v, want %q", text, f, want)
		}
	}
}

// An answer of the wrong form, or about another variable, is an error without its content.
func TestMalformedKeys(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, body := range map[string]any{
		"list": []string{canary}, "text": canary, "other path": map[string]any{"Path": "nomad/jobs/x", "Items": map[string]string{"value": canary}},
		"numbers": map[string]any{"Path": "consul/a", "Items": map[string]int{canary: 1}},
	} {
		w := newWorld(t)
		w.vars.Serve("/v1/var/consul/a", body)
		if f := failing(t, w.withConsul(`{{ key "a" }}`)); f.Text != "kv.block(a): the response is malformed" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for name, body := range map[string]any{"object": map[string]string{"x": canary}, "numbers": []int{1}, "text": canary} {
		w := newWorld(t)
		w.vars.Serve("/v1/vars/tree", body)
		if f := failing(t, w.withConsul(`{{ tree "a" }}`)); f.Text != "kv.list(a): the response is malformed" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	w := newWorld(t)
	w.vars.Serve("/v1/vars/tree", []any{nil, map[string]any{"Path": "consul/b", "Items": map[string]string{"value": canary}},
		map[string]any{"Path": "consul/a~zz"}, map[string]any{"Path": "../a", "Items": map[string]string{"value": canary}},
		map[string]any{"Path": "consul/a", "Items": map[string]string{"value": "1"}}})
	p := start(t, w.withConsul(`{{ range tree "a" }}{{ .Path }}{{ end }}`, `{{ tree "/" | len }}`))
	p.rendersFirst("", "2")
}

// A long list of keys is rendered in the memory of a small task.
func TestManyKeys(t *testing.T) {
	w := newWorld(t)
	var list []*variable.Decrypted
	for i := range 10000 {
		list = append(list, &variable.Decrypted{Metadata: variable.Metadata{Path: fmt.Sprintf("consul/app/%05d", i)},
			Items: map[string]string{"value": strings.Repeat("x", 100)}})
	}
	w.vars.Serve("/v1/vars/tree", list)
	req := w.withConsul(`{{ tree "app" | len }}`)
	if !raced {
		req.Memory = 64 << 20
	}
	p := start(t, req)
	p.rendersFirst("10000")
}

// Errors of functions that get the values of keys do not contain them, and neither do the names of missing data.
func TestKeysAreSecret(t *testing.T) {
	w := newWorld(t)
	setKey(w.vars, "secret", canary)
	for _, expr := range []string{
		`key "secret" | parseInt`, `key "secret" | parseJSON`, `key (printf "%s//" (key "secret"))`, `key (printf "a@%s" (key "secret"))`,
		`service (key "secret") "x"`, `tree (printf "x?%s=1" (key "secret"))`, `range key "secret"`,
		`with keyExistsGet "secret"`, `with tree "secret" | explode | toJSON | parseInt`, `services (key "secret")`,
	} {
		text := "{{ " + expr + " }}"
		if strings.HasPrefix(expr, "range") || strings.HasPrefix(expr, "with") {
			text += "{{ .nothing }}{{ end }}"
		}
		if f := failing(t, w.withConsul(text)); strings.Contains(strings.ToLower(fmt.Sprint(f)), canary[:5]) {
			t.Errorf("%s: the error contains the value: %+v", expr, f)
		}
	}
}
