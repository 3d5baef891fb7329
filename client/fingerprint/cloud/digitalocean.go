package cloud

import (
	"context"
	"errors"
)

// digitalOcean is the metadata service of DigitalOcean droplets.
var digitalOcean = service{
	name: "env_digitalocean", endpoint: "http://169.254.169.254/metadata/v1/", env: "DO_ENV_URL",
	identify: identifyDigitalOcean, read: readDigitalOcean,
}

const doID = "unique.platform.digitalocean.id"

var (
	doDroplet = field{"id", doID, matching(`^[0-9]{1,20}$`)}
	doRegion  = field{"region", "platform.digitalocean.region", matching(`^[a-z]{3}[0-9]{1,2}$`)}
)

var doFields = []field{
	doDroplet, doRegion,
	{"hostname", "unique.platform.digitalocean.hostname", word},
	{"interfaces/private/0/ipv4/address", "unique.platform.digitalocean.private-ipv4", address},
	{"interfaces/public/0/ipv4/address", "unique.platform.digitalocean.public-ipv4", address},
	{"interfaces/private/0/ipv6/address", "unique.platform.digitalocean.private-ipv6", address},
	{"interfaces/public/0/ipv6/address", "unique.platform.digitalocean.public-ipv6", address},
	{"interfaces/public/0/mac", "unique.platform.digitalocean.mac", hardware},
}

// identifyDigitalOcean checks the ID and the region. A number alone does not identify the service.
func identifyDigitalOcean(ctx context.Context, s *source) error {
	return errors.Join(identified(ctx, s, doDroplet), identified(ctx, s, doRegion))
}

func readDigitalOcean(ctx context.Context, s *source) (Facts, error) {
	attributes, err := s.values(ctx, doFields)
	if err != nil {
		return Facts{}, err
	}
	return Facts{attributes, map[string]string{"digitalocean": attributes[doID]}}, nil
}
