package mesh

import (
	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
)

// Entries returns the configuration of the job's gateways in Consul. Mesh gateways have none.
func Entries(job *nomad.Job) (out []api.ConfigEntry) {
	for _, tg := range job.TaskGroups {
		for _, s := range tg.Services {
			if !Uses(s) {
				continue
			}
			switch g := s.Connect.Gateway; g.Role() {
			case connect.RoleIngress:
				out = append(out, ingressEntry(s.Name, g.Ingress))
			case connect.RoleTerminating:
				out = append(out, terminatingEntry(s.Name, g.Terminating))
			}
		}
	}
	return out
}

func ingressEntry(name string, in *connect.IngressConfigEntry) *api.IngressGatewayConfigEntry {
	out := &api.IngressGatewayConfigEntry{Kind: api.IngressGateway, Name: name}
	if tls := gatewayTLS(in.TLS); tls != nil {
		out.TLS = *tls
	}
	for _, l := range in.Listeners {
		listener := api.IngressListener{Port: l.Port, Protocol: l.Protocol}
		for _, s := range l.Services {
			listener.Services = append(listener.Services, ingressService(s))
		}
		out.Listeners = append(out.Listeners, listener)
	}
	return out
}

func ingressService(s *connect.IngressService) api.IngressService {
	out := api.IngressService{Name: s.Name, Hosts: s.Hosts, RequestHeaders: headers(s.RequestHeaders), ResponseHeaders: headers(s.ResponseHeaders),
		MaxConnections: s.MaxConnections, MaxPendingRequests: s.MaxPendingRequests, MaxConcurrentRequests: s.MaxConcurrentRequests}
	if tls := gatewayTLS(s.TLS); tls != nil {
		out.TLS = &api.GatewayServiceTLSConfig{SDS: tls.SDS}
	}
	return out
}

func gatewayTLS(in *connect.GatewayTLSConfig) *api.GatewayTLSConfig {
	if in == nil {
		return nil
	}
	out := &api.GatewayTLSConfig{Enabled: in.Enabled, TLSMinVersion: in.TLSMinVersion, TLSMaxVersion: in.TLSMaxVersion,
		CipherSuites: in.CipherSuites}
	if in.SDS != nil {
		out.SDS = &api.GatewayTLSSDSConfig{ClusterName: in.SDS.ClusterName, CertResource: in.SDS.CertResource}
	}
	return out
}

func headers(in *connect.HTTPHeaderModifiers) *api.HTTPHeaderModifiers {
	if in == nil {
		return nil
	}
	return &api.HTTPHeaderModifiers{Add: in.Add, Set: in.Set, Remove: in.Remove}
}

func terminatingEntry(name string, in *connect.TerminatingConfigEntry) *api.TerminatingGatewayConfigEntry {
	out := &api.TerminatingGatewayConfigEntry{Kind: api.TerminatingGateway, Name: name}
	for _, s := range in.Services {
		out.Services = append(out.Services, api.LinkedService{Name: s.Name, CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, SNI: s.SNI})
	}
	return out
}
