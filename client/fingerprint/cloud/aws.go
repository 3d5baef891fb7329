package cloud

import (
	"context"
	"errors"
	"net/http"
)

// aws is the metadata service of EC2 instances, version 2: it answers only with a session token.
var aws = service{
	name: "env_aws", endpoint: "http://169.254.169.254/latest/meta-data/", env: "AWS_ENV_URL",
	identify: identifyAWS, read: readAWS,
}

// The headers of session tokens. The token of an attempt expires after a minute.
const (
	awsTokenHeader = "X-Aws-Ec2-Metadata-Token"
	awsTTLHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
	awsTTL         = "60"
	// awsTokenPath is relative to the directory meta-data.
	awsTokenPath = "../api/token"
)

const (
	awsID   = "unique.platform.aws.instance-id"
	awsZone = "platform.aws.placement.availability-zone"
	// awsLink is <zone>.<instance ID>.
	awsLink = "aws.ec2"
)

var awsToken = matching(`^[A-Za-z0-9+/=_-]{16,256}$`)

var awsInstance = field{"instance-id", awsID, matching(`^i-[0-9a-f]{8,32}$`)}

var awsFields = []field{
	awsInstance,
	{"ami-id", "platform.aws.ami-id", matching(`^ami-[0-9a-f]{8,32}$`)},
	{"instance-type", "platform.aws.instance-type", matching(`^[a-z0-9-]+\.[a-z0-9-]+$`)},
	{"instance-life-cycle", "platform.aws.instance-life-cycle", matching(`^[a-z-]+$`)},
	{"placement/availability-zone", awsZone, matching(`^[a-z]{2}-[a-z0-9-]+$`)},
	{"hostname", "unique.platform.aws.hostname", word},
	{"local-hostname", "unique.platform.aws.local-hostname", word},
	{"public-hostname", "unique.platform.aws.public-hostname", word},
	{"local-ipv4", "unique.platform.aws.local-ipv4", address},
	{"public-ipv4", "unique.platform.aws.public-ipv4", address},
	{"mac", "unique.platform.aws.mac", hardware},
}

// identifyAWS gets a session token and checks the instance ID.
func identifyAWS(ctx context.Context, s *source) error {
	s.header.Set(awsTTLHeader, awsTTL)
	text, err := s.request(ctx, http.MethodPut, awsTokenPath)
	s.header.Del(awsTTLHeader)
	if err != nil {
		return err
	}
	token, err := awsToken(text)
	if err != nil {
		return errors.New("the reply is not a session token") // without the reply
	}
	s.header.Set(awsTokenHeader, token)
	return identified(ctx, s, awsInstance)
}

func readAWS(ctx context.Context, s *source) (Facts, error) {
	attributes, err := s.values(ctx, awsFields)
	if err != nil {
		return Facts{}, err
	}
	link := attributes[awsID]
	if zone := attributes[awsZone]; zone != "" {
		link = zone + "." + link
	}
	return Facts{attributes, map[string]string{awsLink: link}}, nil
}

// identified returns an error unless the service has a valid value of the field.
func identified(ctx context.Context, s *source, f field) error {
	v, err := s.value(ctx, f)
	if err == nil && v == "" {
		err = errNoValue
	}
	return err
}
