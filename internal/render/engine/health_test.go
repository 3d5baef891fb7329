package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

const instancesOfWeb = "/v1/service/web/instances"

// instance returns an instance of the service web on a node.
func instance(node, id string, status catalog.Status) *catalog.Instance {
	return &catalog.Instance{NodeName: node, NodeAddress: "198.18.0." + node[len(node)-1:], Registration: catalog.Registration{
		ID: id, ServiceName: "web", Namespace: "default", NodeID: "id-of-" + node, Datacenter: "dc1", JobID: "job", AllocID: "alloc",
		Tags: []string{"v2", "a", id}, Address: "10.0.0.1", Port: 80, Status: status}}
}

// withConsul is request with the place of the node.
func (w *world) withConsul(texts ...string) *render.Request {
	req := w.request(texts...)
	req.Datacenter, req.NodeID = "dc1", "id-of-n2"
	return req
}

// rendersFirst checks the first texts of templates.
func (p *program) rendersFirst(want ...string) {
	p.t.Helper()
	p.until("a complete pass", func() bool {
		return p.fatal != nil || len(p.passes) > 0 && p.passes[len(p.passes)-1].Complete
	})
	if p.fatal != nil {
		p.t.Fatalf("error = %+v", p.fatal)
	}
	for i, text := range want {
		if got := p.last(i); got != text {
			p.t.Errorf("template %d = %q, want %q", i, got, text)
		}
	}
}

// Filters, order, and the datacenter of service.
func TestService(t *testing.T) {
	w := newWorld(t)
	far := instance("n3", "z", catalog.Passing)
	far.Datacenter = "dc2"
	list := []*catalog.Instance{far, instance("n2", "b", catalog.Passing), instance("n1", "d", ""), instance("n1", "c", catalog.Passing),
		instance("n2", "w", catalog.Warning), instance("n2", "x", catalog.Critical)}
	w.vars.Serve(instancesOfWeb, list)
	w.vars.Serve("/v1/service/none/instances", []string{})
	ids := `{{ range service %s }}{{ .ID }} {{ end }}`
	want := map[string]string{
		`"web"`:                     "c d b z ",
		`"web|passing"`:             "c d b z ",
		`"web" "any"`:               "c d b w x z ",
		`"web|passing,warning"`:     "c d b w z ",
		`"web|critical"`:            "x ",
		`"web|maintenance"`:         "",
		`"web@dc2"`:                 "z ",
		`"web@dc9"`:                 "",
		`"web~_agent|any"`:          "b w x c d z ",
		`"b.web"`:                   "b ",
		`"b.web@dc1~_agent|any"`:    "b ",
		`"web?ns=default"`:          "c d b z ",
		`"none"`:                    "",
		`""`:                        "",
		`"web?ns=default@dc2|any" `: "z ",
	}
	var texts, results []string
	for arg, result := range want {
		texts, results = append(texts, fmt.Sprintf(ids, arg)), append(results, result)
	}
	p := start(t, w.withConsul(texts...))
	p.rendersFirst(results...)
}

// All fields of an instance, and the functions of the library that take instances.
func TestServiceFields(t *testing.T) {
	w := newWorld(t)
	full, bare := instance("n1", "full", catalog.Warning), instance("n2", "bare", "")
	full.Meta = map[string]string{"version": "7"}
	full.TaggedAddresses = map[string]catalog.TaggedAddress{"lan": {Address: "10.9.9.9", Port: 81}}
	full.Weights = &catalog.Weights{Passing: 5, Warning: 2}
	full.Checks = []*catalog.Check{{ID: "c1", Name: "alive", Type: "http", Status: catalog.Warning, Output: "slow"}}
	bare.Address, bare.Tags, bare.Port = "", nil, 0
	w.vars.Serve(instancesOfWeb, []*catalog.Instance{full, bare})
	p := start(t, w.withConsul(
		`{{ range service "web|any" }}{{ .Node }} {{ .NodeID }} {{ .NodeAddress }} {{ .NodeTaggedAddresses.lan }} {{ .NodeMeta }} `+
			`{{ .ServiceMeta.version }} {{ .Address }} {{ .ServiceTaggedAddresses.lan.Address }} {{ .ID }} {{ .Name }} {{ .Tags }} `+
			`{{ .Status }} {{ .Port }} {{ .Weights.Passing }}/{{ .Weights.Warning }}{{ range .Checks }} `+
			`{{ .CheckID }} {{ .Name }} {{ .Type }} {{ .Status }} {{ .Output }} {{ .ServiceName }}{{ end }}{{ "\n" }}{{ end }}`,
		`{{ range $tag, $list := service "web|any" | byTag }}{{ $tag }}={{ len $list }} {{ end }}`,
		`{{ range $meta, $list := service "web|any" | byMeta "version" }}{{ $meta }}={{ len $list }} {{ end }}`,
		`{{ range $port, $list := service "web|any" | byPort }}{{ $port }}={{ len $list }} {{ end }}`,
		`{{ range service "web|any" }}{{ if .Tags | contains "v2" }}{{ .ID }}{{ end }} {{ end }}`,
		`{{ with service "web|any" }}{{ with index . 0 }}{{ .Port }}{{ end }}{{ end }}`,
		`{{ service "web|any" | toJSON | contains "tagged" }}{{ scratch.Set "x" (service "web|any") }}{{ scratch.Get "x" | len }}`,
	))
	p.rendersFirst(
		"n1 id-of-n1 198.18.0.1 198.18.0.1 map[] 7 10.0.0.1 10.9.9.9 full web [a full v2] warning 80 5/2 c1 alive http warning slow web\n"+
			"n2 id-of-n2 198.18.0.2 198.18.0.2 map[]  198.18.0.2  bare web [] passing 0 1/1\n",
		"a=1 full=1 v2=1 ", "7=1 _no_version_=1 ", "0=1 80=1 ", "full  ", "80", "false2")
}

// Names and tags of services, and the datacenter.
func TestServicesOfConsul(t *testing.T) {
	w := newWorld(t)
	w.vars.Serve("/v1/services", []*catalog.NamespaceServices{
		{Namespace: "other", Services: []*catalog.ServiceStub{{ServiceName: "hidden"}}},
		{Namespace: "default", Services: []*catalog.ServiceStub{{ServiceName: "web", Tags: []string{"b", "a"}}, {ServiceName: "db"}}}})
	p := start(t, w.withConsul(
		`{{ range services }}{{ .Name }}{{ .Tags }} {{ end }}`, `{{ range services "@dc1" }}{{ .Name }} {{ end }}`,
		`{{ range services "?ns=other" }}{{ .Name }} {{ end }}`, `{{ range $tag, $list := services | byTag }}{{ $tag }}={{ len $list }} {{ end }}`,
		`{{ range datacenters }}{{ . }} {{ end }}{{ range datacenters true }}{{ . }}{{ end }}`))
	p.rendersFirst("db[] web[a b] ", "db web ", "hidden ", "a=1 b=1 ", "dc1 dc1")
}

// A template follows the instances, and waits only until the first answer.
func TestServiceFollows(t *testing.T) {
	w := newWorld(t)
	w.vars.Serve(instancesOfWeb, []*catalog.Instance{instance("n1", "a", catalog.Passing)})
	p := start(t, w.withConsul(`{{ range service "web" }}{{ .ID }} {{ end }}`, `{{ range service "web|any" }}{{ .Status }} {{ end }}`))
	p.rendersFirst("a ", "passing ")
	p.until("the missing data is named", func() bool {
		return len(p.missing) > 0 && fmt.Sprint(p.missing[0].Names) == "[health.service(web|any) health.service(web|passing)]"
	})
	w.vars.Serve(instancesOfWeb, []*catalog.Instance{instance("n1", "a", catalog.Critical), instance("n2", "b", catalog.Passing)})
	p.until("the instance is replaced", func() bool { return p.last(0) == "b " && p.last(1) == "critical passing " })
	w.vars.Serve(instancesOfWeb, []*catalog.Instance{})
	p.until("no instance is left", func() bool { return p.last(0) == "" && p.last(1) == "" })
}

// Ten thousand instances are rendered in the memory of a small task.
func TestManyInstances(t *testing.T) {
	w := newWorld(t)
	var list []*catalog.Instance
	for i := range 10000 {
		list = append(list, instance("n1", fmt.Sprintf("_nomad-task-%036d-%05d", i, i), catalog.Passing))
	}
	w.vars.Serve(instancesOfWeb, list)
	req := w.withConsul(`{{ service "web" | len }}`, `{{ range service "web" }}{{ .Address }}:{{ .Port }}{{ "\n" }}{{ end }}`)
	if !raced {
		req.Memory = 64 << 20
	}
	p := start(t, req)
	p.rendersFirst("10000", strings.Repeat("10.0.0.1:80\n", 10000))
}

// An answer of the wrong form is an error without its content.
func TestMalformedInstances(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, body := range map[string]any{
		"object": map[string]string{"not": canary}, "text": canary, "numbers": []int{1},
		"bad field":   []map[string]any{{"ID": canary, "Port": canary}},
		"bad check":   []map[string]any{{"ID": canary, "Checks": canary}},
		"bad weights": []map[string]any{{"ID": canary, "Weights": []string{canary}}},
	} {
		w := newWorld(t)
		w.vars.Serve(instancesOfWeb, body)
		f := failing(t, w.withConsul(`{{ range service "web" }}{{ end }}`))
		if f.Text != "health.service(web|passing): the response is malformed" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	w := newWorld(t)
	w.vars.Serve(instancesOfWeb, json.RawMessage(`[null, {"Checks": [null]}, {"Status": "\u0000weird", "Tags": [""]}]`))
	p := start(t, w.withConsul(`{{ range service "web|any" }}<{{ .Node }}>{{ end }}`))
	p.rendersFirst("<><>")
}

// The arguments are checked before they become a part of a request, and errors do not repeat them.
func TestBadConsulArguments(t *testing.T) {
	t.Parallel() // it mostly waits
	for text, want := range map[string]string{
		`{{ service "we b" }}`:                       "malformed argument",
		`{{ service "../vars" }}`:                    "malformed argument",
		`{{ service "web/instances" }}`:              "malformed argument",
		`{{ service "web%2f.." }}`:                   "malformed argument",
		`{{ service "web\n" }}`:                      "malformed argument",
		`{{ service "web|healthy" }}`:                "malformed filter",
		`{{ service "web|," }}`:                      "malformed filter",
		`{{ service "web~other" }}`:                  "only ~_agent",
		`{{ service "web?ns=a&namespace=b" }}`:       "unknown parameter",
		`{{ service "web?ns=a&ns=b" }}`:              "unknown parameter",
		`{{ service "web?index=1" }}`:                "unknown parameter",
		`{{ service "web?partition=p" }}`:            "the parameter partition is refused",
		`{{ service "web?peer=p" }}`:                 "the parameter peer is refused",
		`{{ service "web?sameness-group=p" }}`:       "the parameter sameness-group is refused",
		`{{ services "@dc2" }}`:                      "another datacenter than that of the node, dc1, is refused",
		`{{ services "web" }}`:                       "malformed argument",
		`{{ datacenters true true }}`:                "more than one argument",
		`{{ key "a@dc2" }}`:                          "another datacenter",
		`{{ keyExists "a?ns=x&stale=" }}`:            "unknown parameter",
		`{{ keyExistsGet "a?dc=x" }}`:                "unknown parameter",
		`{{ keyOrDefault "a@b@c" "x" }}`:             "malformed key",
		`{{ key "a//b" }}`:                           "malformed key",
		`{{ key "a/" }}`:                             "malformed key",
		`{{ key "//a" }}`:                            "malformed key",
		`{{ ls "a//" }}`:                             "malformed key",
		`{{ tree "a@dc2" }}`:                         "another datacenter",
		`{{ safeTree "a?x=y" }}`:                     "unknown parameter",
		`{{ safeLs "@" }}`:                           "malformed key",
		`{{ key (printf "%0200d" 1) }}`:              "malformed key",
		`{{ key (printf "%s//x" (env "CANARY2")) }}`: "malformed key",
		`{{ service (env "CANARY2") "bad" }}`:        "malformed filter",
		`{{ tree (printf "%s@x" (env "CANARY2")) }}`: "another datacenter",
		`{{ nodes }}`:                                "nodes: the function is refused: the identity of a task may not read nodes",
		`{{ node "n1" }}`:                            "node: the function is refused: the identity of a task may not read nodes",
		`{{ connect "web" }}`:                        "connect: the function is refused: it belongs to Consul Connect",
		`{{ caLeaf "web" }}`:                         "caLeaf: the function is refused: it belongs to Consul Connect",
		`{{ peerings }}`:                             "peerings: the function is refused: partitions and peers",
	} {
		w := newWorld(t)
		req := w.withConsul(text)
		req.Env["CANARY2"] = canary
		f := failing(t, req)
		if !strings.Contains(f.Text, want) || strings.Contains(f.Text, canary) {
			t.Errorf("%s: %+v, want %q", text, f, want)
		}
		if n := w.vars.Reads(); n > 0 {
			t.Errorf("%s: %d requests", text, n)
		}
	}
}
