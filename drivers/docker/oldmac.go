package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/containerd/errdefs/pkg/errhttp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
)

// endpointMAC is the first version of the API in which the MAC address is an option of the endpoint. Before, it was an
// option of the container, which the types of the API no longer have.
const endpointMAC = "1.44"

// maxCreated limits the answer to the creation of a container.
const maxCreated = 1 << 20

// createContainer creates a container, and returns its ID.
func (d *Driver) createContainer(ctx context.Context, spec *client.ContainerCreateOptions) (id string, err error) {
	if mac := macOf(spec); mac != "" && versions.LessThan(d.api.ClientVersion(), endpointMAC) {
		return d.createWithMAC(ctx, spec, mac)
	}
	created, err := d.api.ContainerCreate(ctx, *spec)
	return created.ID, err
}

// macOf returns the MAC address of a container's endpoint, "" for none.
func macOf(spec *client.ContainerCreateOptions) string {
	if spec.NetworkingConfig == nil {
		return ""
	}
	for _, at := range spec.NetworkingConfig.EndpointsConfig {
		if at != nil && len(at.MacAddress) > 0 {
			return at.MacAddress.String()
		}
	}
	return ""
}

// createWithMAC creates a container by an API before endpointMAC.
func (d *Driver) createWithMAC(ctx context.Context, spec *client.ContainerCreateOptions, mac string) (id string, err error) {
	ask := container.CreateRequest{Config: spec.Config, HostConfig: spec.HostConfig}
	if spec.HostConfig.NetworkMode.IsUserDefined() { // on the default network, an endpoint has no other options
		ask.NetworkingConfig = spec.NetworkingConfig
	}
	body, err := json.Marshal(struct {
		container.CreateRequest
		MacAddress string
	}{ask, mac})
	if err != nil {
		return "", fmt.Errorf("encode the options of the container: %w", err)
	}
	dial := d.api.Dialer()
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	at := "http://docker/v" + d.api.ClientVersion() + "/containers/create?" + url.Values{"name": {spec.Name}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", fmt.Errorf("create a container with a MAC address: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	var answer struct{ ID, Message string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxCreated)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read the answer of the daemon: %w", err)
	}
	if resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("the daemon refused the container: %s: %w", answer.Message, errhttp.ToNative(resp.StatusCode))
	}
	if answer.ID == "" {
		return "", errors.New("the daemon returned no ID of the container")
	}
	return answer.ID, nil
}
