/* Let certificates for IP addresses be verified.
 *
 * RFC 6125 B.2.2 and RFC 2818 3.1: a client that connected to an address looks
 * for it among the certificate's iPAddress names. The engine compares its host
 * name with the dNSName entries only. The build names this function where the
 * engine asks OpenSSL for those entries (X509_get_ext_d2i); it returns them with
 * every address repeated as a dNSName in text. That text has no wildcard and no
 * letter a host name could have in its place, so it matches that address alone.
 */

#include <arpa/inet.h>
#include <openssl/x509v3.h>

static const char *address_text(const ASN1_OCTET_STRING *address, char *text, socklen_t size) {
  const unsigned char *bytes = ASN1_STRING_get0_data(address);
  switch (ASN1_STRING_length(address)) {
  case 4:
    return inet_ntop(AF_INET, bytes, text, size);
  case 16:
    return inet_ntop(AF_INET6, bytes, text, size);
  default:
    return NULL;
  }
}

static GENERAL_NAME *dns_name(const char *text) {
  GENERAL_NAME *name = GENERAL_NAME_new();
  ASN1_IA5STRING *value = ASN1_IA5STRING_new();
  if (name && value && ASN1_STRING_set(value, text, -1)) {
    GENERAL_NAME_set0_value(name, GEN_DNS, value);
    return name;
  }
  GENERAL_NAME_free(name);
  ASN1_IA5STRING_free(value);
  return NULL;
}

/* On failure an address is merely not repeated, and verification fails closed. */
static void repeat_addresses(GENERAL_NAMES *names) {
  const int count = sk_GENERAL_NAME_num(names);
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
    char text[INET6_ADDRSTRLEN];
    if (name->type != GEN_IPADD || !address_text(name->d.iPAddress, text, sizeof(text))) continue;
    GENERAL_NAME *repeated = dns_name(text);
    if (repeated && !sk_GENERAL_NAME_push(names, repeated)) GENERAL_NAME_free(repeated);
  }
}

void *quiver_get_ext_d2i(const X509 *certificate, int nid, int *critical, int *index) {
  void *extension = X509_get_ext_d2i(certificate, nid, critical, index);
  if (extension && nid == NID_subject_alt_name) repeat_addresses((GENERAL_NAMES *) extension);
  return extension;
}
