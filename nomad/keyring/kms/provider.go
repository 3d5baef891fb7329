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

	"github.com/open-nomad/open-nomad/nomad"
)

// connectors make a connection to a service by its settings, by provider.
var connectors = map[string]func(context.Context, map[string]string) (*session, error){
	string(nomad.KEKProviderVaultTransit):  connectTransit,
	string(nomad.KEKProviderAWSKMS):        connectAWS,
	string(nomad.KEKProviderGCPCloudKMS):   connectGCP,
	string(nomad.KEKProviderAzureKeyVault): connectAzure,
}

// options are settings in the library's form. It does not look at the environment:
// that has been done. The cloud ones don't ask for the key before it is used, so that
// to connect is bounded, and to open needs no more rights than it must.
func options(keys map[string]string) []wrapping.Option {
	keys = maps.Clone(keys)
	keys["disallow_env_vars"], keys["key_not_required"] = "true", "true"
	return []wrapping.Option{wrapping.WithConfigMap(keys), wrapping.WithDisallowEnvVars(true)}
}

// connectTransit speaks to Vault once: the library encrypts a letter, and renews the
// token from then on unless it can't be.
func connectTransit(ctx context.Context, keys map[string]string) (*session, error) {
	w := transit.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	if c, ok := w.GetClient().(*transit.TransitClient); ok {
		c.GetApiClient().SetMaxRetries(0) // we retry
		c.GetApiClient().SetClientTimeout(callWithin)
	}
	return &session{w, func() { _ = w.Finalize(context.Background()) }}, nil // it stops the renewal, and fails never
}

func connectAWS(ctx context.Context, keys map[string]string) (*session, error) {
	w := awskms.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	c, ok := w.Client().(*sdk.KMS)
	if !ok || c.Config.HTTPClient == nil {
		return nil, errors.New("the library has no client")
	}
	c.Config.HTTPClient.Timeout = callWithin // its calls heed no context
	return &session{w, func() { closeIdle(c.Config.HTTPClient) }}, nil
}

func closeIdle(c *http.Client) { c.CloseIdleConnections() }

func connectGCP(ctx context.Context, keys map[string]string) (*session, error) {
	w := gcpckms.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	if w.Client() == nil {
		return nil, fmt.Errorf("the library has no client")
	}
	return &session{w, func() { _ = w.Client().Close() }}, nil // nothing is lost with it
}

func connectAzure(ctx context.Context, keys map[string]string) (*session, error) {
	w := azurekeyvault.NewWrapper()
	if _, err := w.SetConfig(ctx, options(keys)...); err != nil {
		return nil, err
	}
	return &session{w, func() {}}, nil
}
