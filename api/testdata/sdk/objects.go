// Makes a namespace with a quota and a volume, and searches.
package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/hashicorp/nomad/api"
	"github.com/hashicorp/nomad/api/contexts"
)

func main() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	quota := &api.QuotaSpec{Name: "small", Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: &api.QuotaResources{CPU: pointer(1000)}}}}
	if _, err := client.Quotas().Register(quota, nil); err != nil {
		log.Fatal(err)
	}
	space := &api.Namespace{Name: "dev", Quota: "small", Meta: map[string]string{"team": "a"},
		Capabilities: &api.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}}}
	if _, err := client.Namespaces().Register(space, nil); err != nil {
		log.Fatal(err)
	}
	if err := volumes(client.HostVolumes()); err != nil {
		log.Fatal(err)
	}
	found, _, err := client.Search().PrefixSearch("ex", contexts.Jobs, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Matches[contexts.Jobs], found.Truncations[contexts.Jobs])
	fuzzy, _, err := client.Search().FuzzySearch("web", contexts.All, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, match := range fuzzy.Matches[contexts.Tasks] {
		fmt.Println(match.ID, match.Scope)
	}
	policies, _, err := client.Scaling().ListPolicies(nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range policies {
		policy, _, err := client.Scaling().GetPolicy(p.ID, nil)
		fmt.Println(policy, err)
	}
	_, _, err = client.Namespaces().Info("none", nil)
	var unexpected api.UnexpectedResponseError
	if errors.As(err, &unexpected) && unexpected.HasStatusCode() && unexpected.StatusCode() == http.StatusNotFound {
		fmt.Println(unexpected.Body())
	}
	var out map[string]any
	if _, err := client.Raw().Query("/v1/agent/self", &out, nil); err != nil {
		log.Fatal(err)
	}
}

func volumes(volumes *api.HostVolumes) error {
	made, _, err := volumes.Create(&api.HostVolumeCreateRequest{Volume: &api.HostVolume{Name: "data", Namespace: "dev", PluginID: "mkdir",
		RequestedCapabilities: []*api.HostVolumeCapability{{
			AttachmentMode: api.HostVolumeAttachmentModeFilesystem, AccessMode: api.HostVolumeAccessModeSingleNodeWriter}}}}, nil)
	if err != nil {
		return err
	}
	if made.Volume.State == api.HostVolumeStateReady {
		fmt.Println(made.Volume.HostPath)
	}
	_, _, err = volumes.Delete(&api.HostVolumeDeleteRequest{ID: made.Volume.ID}, nil)
	return err
}

func pointer[T any](v T) *T { return &v }
