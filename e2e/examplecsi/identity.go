package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// zoneKey is the name of the segment of topologies.
const zoneKey = "zone"

// identity is the service Identity.
type identity struct {
	csi.UnimplementedIdentityServer
	config config
}

func (i *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "csi.example.com", VendorVersion: "1.0.0"}, nil
}

func (i *identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (i *identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	out := new(csi.GetPluginCapabilitiesResponse)
	add := func(kind csi.PluginCapability_Service_Type) {
		out.Capabilities = append(out.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: kind}}})
	}
	if i.config.controller {
		add(csi.PluginCapability_Service_CONTROLLER_SERVICE)
	}
	if i.config.zone != "" {
		add(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	return out, nil
}
