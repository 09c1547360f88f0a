from agent_resolver.identity.claim import caller_of as caller_of
from agent_resolver.identity.client_credentials import (
    RENEW_SECONDS as RENEW_SECONDS,
    ClientCredentials as ClientCredentials,
)
from agent_resolver.identity.errors import (
    InvalidToken as InvalidToken,
    KeysUnavailable as KeysUnavailable,
    MissingToken as MissingToken,
    TokenCode as TokenCode,
    UnusableIdentity as UnusableIdentity,
    WorkerUnavailable as WorkerUnavailable,
)
from agent_resolver.identity.issuer_address import address as address
from agent_resolver.identity.issuer_http import (
    ANSWER_SECONDS as ANSWER_SECONDS,
    MAX_DOCUMENT_BYTES as MAX_DOCUMENT_BYTES,
    Answer as Answer,
    get_over_http as get_over_http,
    post_over_http as post_over_http,
)
from agent_resolver.identity.issuer_metadata import check_issuer as check_issuer
from agent_resolver.identity.keys import (
    LIFETIME_SECONDS as LIFETIME_SECONDS,
    MAX_KEYS as MAX_KEYS,
    PAUSE_SECONDS as PAUSE_SECONDS,
    IssuerKeys as IssuerKeys,
    Keys as Keys,
    keys_of as keys_of,
    read_keys as read_keys,
)
from agent_resolver.identity.token import (
    ALGORITHMS as ALGORITHMS,
    LEEWAY_SECONDS as LEEWAY_SECONDS,
    MAX_TOKEN_BYTES as MAX_TOKEN_BYTES,
    verify as verify,
)
from agent_resolver.identity.verifier import Verifier as Verifier
