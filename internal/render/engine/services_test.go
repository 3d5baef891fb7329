package engine_test

import (
	"strings"
	"testing"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/internal/render"
)

// addresses returns registrations of the service web.
func addresses(list ...string) []*nomadapi.ServiceRegistration {
	out := []*nomadapi.ServiceRegistration{}
	for i, a := range list {
		out = append(out, &nomadapi.ServiceRegistration{ServiceName: "web", Address: a, Port: 80 + i, Tags: []string{"v2", a}})
	}
	return out
}

// Templates follow the services of the task's namespace.
func TestServices(t *testing.T) {
	w := newWorld(t)
	req := w.request(
		`{{ range nomadService "web" }}{{ .Name }}={{ .Address }}:{{ .Port }} {{ end }}`,
		`{{ range nomadService "10.0.0.2.web" }}{{ .Address }} {{ .Tags | join "," }}{{ end }}`,
		`{{ range nomadService 1 "me" "web@global" }}{{ .Address }}{{ end }}`,
		`{{ range nomadServices }}{{ .Name }}{{ .Tags }} {{ end }}`)
	w.vars.Serve("/v1/service/web", addresses())
	w.vars.Serve("/v1/service/web?choose=1|me", addresses("10.0.0.9"))
	w.vars.Serve("/v1/services", []*nomadapi.ServiceRegistrationListStub{
		{Namespace: "other", Services: []*nomadapi.ServiceRegistrationStub{{ServiceName: "hidden"}}},
		{Namespace: "default", Services: []*nomadapi.ServiceRegistrationStub{{ServiceName: "web", Tags: []string{"b", "a"}},
			{ServiceName: "db"}}}})
	p := start(t, req)
	p.until("complete without registrations", func() bool { return len(p.passes) > 0 && p.passes[len(p.passes)-1].Complete })
	if p.last(0) != "" || p.last(1) != "" || p.last(2) != "10.0.0.9" || p.last(3) != "db[] web[a b] " {
		t.Errorf("contents = %v", p.contents)
	}
	w.vars.Serve("/v1/service/web", addresses("10.0.0.1", "10.0.0.2"))
	p.until("the registrations arrive", func() bool {
		return p.last(0) == "web=10.0.0.1:80 web=10.0.0.2:81 " && p.last(1) == "10.0.0.2 10.0.0.2,v2"
	})
	w.vars.Serve("/v1/service/web", addresses("10.0.0.2"))
	p.until("a registration is gone", func() bool { return p.last(0) == "web=10.0.0.2:80 " })
}

func TestBadServiceArguments(t *testing.T) {
	for text, want := range map[string]string{
		`{{ nomadService }}`:                   "wrong arguments",
		`{{ nomadService "a" "b" }}`:           "wrong arguments",
		`{{ nomadService "1" "key" "web" }}`:   "wrong arguments",
		`{{ nomadService -1 "key" "web" }}`:    "wrong arguments",
		`{{ nomadService 1 "a|b" "web" }}`:     "wrong arguments",
		`{{ nomadService "we b" }}`:            "malformed argument",
		`{{ nomadService "../vars" }}`:         "malformed argument",
		`{{ nomadService "web?choose=1" }}`:    "malformed argument",
		`{{ nomadServices "web" }}`:            "malformed argument",
		`{{ nomadService (printf "s3cr t") }}`: "malformed argument",
	} {
		p := start(t, newWorld(t).request(text))
		p.ended()
		if p.fatal == nil || !strings.Contains(p.fatal.Text, want) || strings.Contains(p.fatal.Text, "s3cr t") &&
			!strings.Contains(text, `"s3cr t"`) {
			t.Errorf("%s: %+v, want %q", text, p.fatal, want)
		}
	}
}

// An answer that is not that of the API is an error, not an empty list.
func TestMalformedServices(t *testing.T) {
	w := newWorld(t)
	w.vars.Serve("/v1/service/web", map[string]string{"not": "a list"})
	p := start(t, w.request(`{{ range nomadService "web" }}{{ end }}`))
	p.ended()
	if p.fatal == nil || !strings.Contains(p.fatal.Text, "nomad.service(web@default.global): the response is malformed") {
		t.Errorf("fatal = %+v", p.fatal)
	}
	if p.kinds[len(p.kinds)-1] != render.KindFatal {
		t.Errorf("frames %v", p.kinds)
	}
}
