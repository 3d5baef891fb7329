package kms

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	//lint:ignore SA1019 the wrapping library is made with it
	sdk "github.com/aws/aws-sdk-go/service/kms"
	wrapping "github.com/hashicorp/go-kms-wrapping/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/awskms/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/azurekeyvault/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/gcpckms/v2"
	"github.com/hashicorp/go-kms-wrapping/wrappers/transit/v2"

	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

// connectors connect to the services, by provider.
var connectors = map[string]func(context.Context, map[string]string) (*session, error){
	string(rootkey.KEKProviderVaultTransit):  connectTransit,
	string(rootkey.KEKProviderAWSKMS):        connectAWS,
	string(rootkey.KEKProviderGCPCloudKMS):   connectGCP,
	string(rootkey.KEKProviderAzureKeyVault): connectAzure,
}

// options converts settings to the library's form. The library does not read the environment again.
// The cloud providers do not fetch the key on connect: connecting is bounded, and opening needs no
// further permissions.
func options(keys map[string]string) []wrapping.Option {
	keys = maps.Clone(keys)
	keys["disallow_env_vars"], keys["key_not_required"] = "true", "true"
	return []wrapping.Option{wrapping.WithConfigMap(keys), wrapping.WithDisallowEnvVars(true)}
}

// connectTransit sends one test request to Vault: the library encrypts a value. It then renews the
// token periodically, unless renewal is disabled.
func connectTransit(ctx context.Context, keys map[string]string) (*session, error) {
	w := transit.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	if c, ok := w.GetClient().(*transit.TransitClient); ok {
		c.GetApiClient().SetMaxRetries(0) // the wrapper retries
		c.GetApiClient().SetClientTimeout(callWithin)
	}
	return &session{w, func() { _ = w.Finalize(context.Background()) }}, nil // stops the renewal; never fails
}

func connectAWS(ctx context.Context, keys map[string]string) (*session, error) {
	w := awskms.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	c, ok := w.Client().(*sdk.KMS)
	if !ok || c.Config.HTTPClient == nil {
		return nil, errors.New("library returned no client")
	}
	c.Config.HTTPClient.Timeout = callWithin // the client ignores contexts
	return &session{w, func() { closeIdle(c.Config.HTTPClient) }}, nil
}

func closeIdle(c *http.Client) { c.CloseIdleConnections() }

func connectGCP(ctx context.Context, keys map[string]string) (*session, error) {
	w := gcpckms.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	if w.Client() == nil {
		return nil, fmt.Errorf("library returned no client")
	}
	return &session{w, func() { _ = w.Client().Close() }}, nil // nothing to flush
}

func connectAzure(ctx context.Context, keys map[string]string) (*session, error) {
	w := azurekeyvault.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	return &session{w, func() {}}, nil
}
