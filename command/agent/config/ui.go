package config

import (
	"errors"

	"github.com/open-nomad/open-nomad/ui"
)

// UI is the ui block.
type UI struct {
	Enabled               bool                  `hcl:"enabled" default:"true"`
	ContentSecurityPolicy ContentSecurityPolicy `hcl:"content_security_policy"`
	Consul                UILink                `hcl:"consul"`
	Vault                 UILink                `hcl:"vault"`
	Label                 Label                 `hcl:"label"`
	ShowCLIHints          bool                  `hcl:"show_cli_hints" default:"true"`
}

// ContentSecurityPolicy is the ui.content_security_policy block. The defaults of connect_src and
// style_src are stricter than those of Nomad: the UI needs no other host and no inline style.
type ContentSecurityPolicy struct {
	ConnectSrc     []string `hcl:"connect_src" default:"'self'"`
	DefaultSrc     []string `hcl:"default_src" default:"'none'"`
	FormAction     []string `hcl:"form_action" default:"'none'"`
	FrameAncestors []string `hcl:"frame_ancestors" default:"'none'"`
	ImgSrc         []string `hcl:"img_src" default:"'self',data:"`
	ScriptSrc      []string `hcl:"script_src" default:"'self'"`
	StyleSrc       []string `hcl:"style_src" default:"'self'"`
}

// UILink is the ui.consul or ui.vault block.
type UILink struct {
	UIURL string `hcl:"ui_url"`
}

// Label is the ui.label block.
type Label struct {
	Text            string `hcl:"text"`
	BackgroundColor string `hcl:"background_color"`
	TextColor       string `hcl:"text_color"`
}

// Site returns the configuration of the web UI.
func (s *Settings) Site() ui.Config {
	csp := s.UI.ContentSecurityPolicy
	return ui.Config{
		Disabled: !s.UI.Enabled,
		Policy: ui.Policy{Default: csp.DefaultSrc, Connect: csp.ConnectSrc, FormAction: csp.FormAction, FrameAncestors: csp.FrameAncestors,
			Img: csp.ImgSrc, Script: csp.ScriptSrc, Style: csp.StyleSrc},
		Label:     ui.Label{Text: s.UI.Label.Text, Background: s.UI.Label.BackgroundColor, Color: s.UI.Label.TextColor},
		ConsulURL: s.UI.Consul.UIURL, VaultURL: s.UI.Vault.UIURL,
	}
}

func (s *Settings) checkUI() error {
	var errs []error
	for _, f := range s.Site().Faults() {
		errs = append(errs, s.Fault(f.Key, "%s", f.Text))
	}
	return errors.Join(errs...)
}
