package ui

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// Policy is the Content-Security-Policy of the UI: the sources of each directive.
type Policy struct {
	Default, Connect, FormAction, FrameAncestors, Img, Script, Style []string
}

// Strict returns the policy under which the UI works: files and requests of its own agent only. The tests of the
// agent's routes use it; the agent has that of its configuration.
func Strict() Policy {
	self := []string{"'self'"}
	none := []string{"'none'"}
	return Policy{Default: none, Connect: self, FormAction: none, FrameAncestors: none, Img: []string{"'self'", "data:"}, Script: self,
		Style: self}
}

// terminal returns the policy of terminals, which also allows inline styles. Inline scripts stay forbidden.
func (p Policy) terminal() Policy {
	const inline = "'unsafe-inline'"
	if !slices.Contains(p.Style, inline) {
		p.Style = append(slices.Clone(p.Style), inline)
	}
	return p
}

// directive is one directive of a policy and its key in the block content_security_policy.
type directive struct {
	name, key string
	sources   []string
}

func (p Policy) directives() []directive {
	return []directive{
		{"default-src", "default_src", p.Default}, {"connect-src", "connect_src", p.Connect},
		{"form-action", "form_action", p.FormAction}, {"frame-ancestors", "frame_ancestors", p.FrameAncestors},
		{"img-src", "img_src", p.Img}, {"script-src", "script_src", p.Script}, {"style-src", "style_src", p.Style},
	}
}

// noFallback are the directives to which default-src does not apply.
var noFallback = []string{"form-action", "frame-ancestors"}

// String returns the value of the header. A directive without sources is left out, so that
// default-src applies to it, or it is 'none'. The base of relative URLs cannot be changed by markup.
func (p Policy) String() string {
	parts := []string{}
	for _, d := range p.directives() {
		if len(d.sources) == 0 && slices.Contains(noFallback, d.name) {
			d.sources = []string{"'none'"}
		}
		if len(d.sources) > 0 {
			parts = append(parts, d.name+" "+strings.Join(d.sources, " "))
		}
	}
	return strings.Join(append(parts, "base-uri 'none'"), "; ")
}

var (
	source = pattern.Lazy(`^[!-+\--:<-~]+$`) // printable ASCII without space, comma and semicolon
	color  = pattern.Lazy(`^(#[0-9a-fA-F]{3,8}|[a-zA-Z]{1,32}|(rgb|rgba|hsl|hsla)\([0-9., %/deg]{1,64}\))$`)
)

// Fault is a value of the ui block that the UI cannot use.
type Fault struct{ Key, Text string }

// Faults returns the invalid values of the ui block.
func (c Config) Faults() []Fault {
	var out []Fault
	fault := func(key, format string, value string) { out = append(out, Fault{key, fmt.Sprintf(format, value)}) }
	for _, d := range c.Policy.directives() {
		if i := slices.IndexFunc(d.sources, func(s string) bool { return !source().MatchString(s) }); i >= 0 {
			fault("ui.content_security_policy."+d.key, "%q is not a source: list each source as an element, such as \"'self'\"", d.sources[i])
		}
	}
	if v := c.Label.Background; v != "" && !color().MatchString(v) {
		fault("ui.label.background_color", "%q is not a color: use a name, or a value such as #1b6e5f", v)
	}
	if v := c.Label.Color; v != "" && !color().MatchString(v) {
		fault("ui.label.text_color", "%q is not a color: use a name, or a value such as #ffffff", v)
	}
	if !isWeb(c.ConsulURL) {
		fault("ui.consul.ui_url", "%q is not a URL that begins with http:// or https://", c.ConsulURL)
	}
	if !isWeb(c.VaultURL) {
		fault("ui.vault.ui_url", "%q is not a URL that begins with http:// or https://", c.VaultURL)
	}
	return out
}

// isWeb reports whether a link is empty or leads to a web page. Other schemes could run script.
func isWeb(link string) bool {
	u, err := url.Parse(link)
	return link == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
