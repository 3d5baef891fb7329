package getter

import (
	"fmt"
	"os"
)

// cloudVars keep the libraries for S3 and GCS from the metadata service of the node, whose credentials belong
// to the node and not to the job. The operator can allow a variable to use them.
var cloudVars = map[string]string{
	"AWS_EC2_METADATA_DISABLED": "true",
	"GCE_METADATA_HOST":         "metadata-disabled.invalid",
}

// setCloudEnvironment sets the variables that the operator has not.
func setCloudEnvironment() error {
	for name, value := range cloudVars {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
