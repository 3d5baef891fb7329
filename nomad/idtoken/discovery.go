package idtoken

// DiscoveryConfig is the response of /.well-known/openid-configuration.
type DiscoveryConfig struct {
	Issuer        string
	JWKS          string
	IDTokenAlgs   []string
	ResponseTypes []string
	Subjects      []string
	// Claims are the names of all claims that a token may have (open-nomad only).
	Claims []string
}
