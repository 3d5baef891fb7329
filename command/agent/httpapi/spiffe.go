package httpapi

import (
	"strconv"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
	"github.com/open-nomad/open-nomad/nomad/trustbundle"
)

// spiffeRoutes returns the routes of SPIFFE identities. The bundle is public, like the JWKS.
func spiffeRoutes() []web.Route {
	return []web.Route{{Methods: "GET", Path: spiffe.BundlePath, Handle: spiffeBundle}}
}

// spiffeBundle returns the trust bundle in the format of a SPIFFE bundle endpoint.
func spiffeBundle(r *web.Request) (any, error) {
	return web.Read("Spiffe.Bundle", web.NoFields[message.GenericRequest], func(o *message.SpiffeBundleResponse) (any, error) {
		b, err := trustbundle.New(trustbundle.Info{Domain: o.TrustDomain, Sequence: o.Sequence, Refresh: o.RefreshHint}, o.Authorities)
		if err != nil {
			return nil, err
		}
		out, err := b.Document()
		r.Reply.Header().Set("Cache-Control", "max-age="+strconv.Itoa(int(o.RefreshHint.Seconds())))
		return rawJSON(out), err
	})(r)
}
