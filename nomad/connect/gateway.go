package connect

import (
	"slices"
	"time"
)

// Gateway makes a group a gateway of a Consul service mesh.
type Gateway struct {
	Proxy       *GatewayProxy
	Ingress     *IngressConfigEntry
	Terminating *TerminatingConfigEntry
	Mesh        *MeshConfigEntry
}

// GatewayBindAddress is an address that a gateway proxy listens on.
type GatewayBindAddress struct {
	Address string
	Port    int
}

// GatewayProxy configures the proxy of a gateway.
type GatewayProxy struct {
	ConnectTimeout                  *time.Duration
	EnvoyGatewayBindTaggedAddresses bool
	EnvoyGatewayBindAddresses       map[string]*GatewayBindAddress
	EnvoyGatewayNoDefaultBind       bool
	EnvoyDNSDiscoveryType           string
	Config                          map[string]any
}

// GatewayTLSConfig configures TLS of an ingress gateway.
type GatewayTLSConfig struct {
	Enabled       bool
	TLSMinVersion string
	TLSMaxVersion string
	CipherSuites  []string
	SDS           *GatewayTLSSDSConfig
}

// GatewayTLSSDSConfig specifies the source of a gateway's certificate.
type GatewayTLSSDSConfig struct {
	ClusterName  string
	CertResource string
}

// HTTPHeaderModifiers adds, sets and removes HTTP headers.
type HTTPHeaderModifiers struct {
	Add    map[string]string
	Set    map[string]string
	Remove []string
}

// IngressConfigEntry configures an ingress gateway.
type IngressConfigEntry struct {
	TLS       *GatewayTLSConfig
	Listeners []*IngressListener
}

// IngressListener is a port of an ingress gateway.
type IngressListener struct {
	Port     int
	Protocol string
	Services []*IngressService
}

// IngressService is a service behind a listener of an ingress gateway.
type IngressService struct {
	Name                  string
	Hosts                 []string
	TLS                   *GatewayTLSConfig
	RequestHeaders        *HTTPHeaderModifiers
	ResponseHeaders       *HTTPHeaderModifiers
	MaxConnections        *uint32
	MaxPendingRequests    *uint32
	MaxConcurrentRequests *uint32
}

// LinkedService is a service outside of the mesh that a terminating gateway forwards to.
type LinkedService struct {
	Name     string
	CAFile   string
	CertFile string
	KeyFile  string
	SNI      string
}

// MeshConfigEntry makes a gateway a mesh gateway; it has no options.
type MeshConfigEntry struct {
}

// TerminatingConfigEntry configures a terminating gateway.
type TerminatingConfigEntry struct {
	Services []*LinkedService
}

// RestrictsTLS reports whether a gateway has versions or ciphers of TLS, for all listeners or for one service.
func (e *IngressConfigEntry) RestrictsTLS() bool {
	if e == nil {
		return false
	}
	all := []*GatewayTLSConfig{e.TLS}
	for _, l := range e.Listeners {
		for _, s := range l.Services {
			all = append(all, s.TLS)
		}
	}
	return slices.ContainsFunc(all, func(t *GatewayTLSConfig) bool {
		return t != nil && (t.TLSMinVersion != "" || t.TLSMaxVersion != "" || len(t.CipherSuites) > 0)
	})
}
