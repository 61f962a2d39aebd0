"""What a statement of somebody who is no administrator may be made of: the nodes of Spark's plans, and functions.

Whatever isn't listed is refused. A function is here if it reads nothing but its arguments, and if what it costs, in
time and memory, is bounded by what it is given: a task that works on one row can't be ended.
"""

from __future__ import annotations

from typing import NamedTuple

_ROOT = "org.apache.spark.sql.catalyst"


class Function(NamedTuple):
    """`arguments_max`: more would cost too much. `growth`: what comes out is so many times as large as what goes in,
    at most; 0: as many times as there are arguments. `literals`: the arguments, by their places, that are to be short
    literals."""

    arguments_max: int = 16
    growth: int = 1
    literals: tuple[int, ...] = ()


def _plain(names: str) -> dict[str, Function]:
    return dict.fromkeys(names.split(), Function())


def _with_pattern(names: str) -> dict[str, Function]:
    return dict.fromkeys(names.split(), Function(2, literals=(1,)))


SCALARS = {
    **_plain(
        "between coalesce nvl nvl2 ifnull nullif if abs sign signum floor ceil ceiling round bround sqrt cbrt exp ln "
        "log log2 log10 pow power pmod mod isnull isnotnull isnan nanvl greatest least char_length "
        "character_length length len bit_length octet_length trim ltrim rtrim btrim left right substr substring "
        "reverse ascii unhex unbase64 md5 sha sha1 sha2 crc32 hash xxhash64 bit_count try_add try_subtract "
        "try_multiply try_divide typeof"
    ),
    **_plain(
        "current_date curdate current_timestamp now localtimestamp date_trunc trunc year quarter month day "
        "dayofmonth dayofweek weekday dayofyear weekofyear hour minute second extract date_part datepart "
        "date_add dateadd date_sub date_diff datediff add_months months_between last_day "
        "unix_seconds unix_millis unix_micros unix_date timestamp_seconds timestamp_millis timestamp_micros "
        "date_from_unix_date make_date make_timestamp"
    ),
    # Java reads a pattern by recursion: a long one ends the process.
    **_with_pattern(
        "date_format to_date to_timestamp try_to_timestamp unix_timestamp to_unix_timestamp from_unixtime "
        "from_utc_timestamp to_utc_timestamp try_to_date next_day"
    ),
    **_plain(
        "size cardinality array_size array_contains array_position array_min array_max element_at "
        "try_element_at get map_keys map_values map_contains_key"
    ),
    **dict.fromkeys(("upper", "ucase", "lower", "lcase"), Function(growth=3)),
    **dict.fromkeys(("hex", "base64"), Function(growth=2)),
    "to_json": Function(1, growth=6),
    **dict.fromkeys(("concat", "array", "struct", "named_struct"), Function(growth=0)),
    **dict.fromkeys(("contains", "startswith", "endswith", "instr"), Function(2, literals=(1,))),
    **dict.fromkeys(("locate", "position"), Function(3, literals=(0,))),
    "split_part": Function(3, literals=(1,)),
    "get_json_object": Function(2, literals=(1,)),
    **dict.fromkeys(("variant_get", "try_variant_get"), Function(3, literals=(1, 2))),
    "window": Function(2, literals=(1,)),
    **dict.fromkeys(("is_system", "body_text", "position_of", "broker_of", "half_of"), Function(1)),
    "body_json": Function(1, growth=4),
    "has_tag": Function(2, literals=(1,)),
}
AGGREGATES = {
    **_plain(
        "count sum avg mean min max first first_value last last_value any_value bool_and bool_or every some any "
        "stddev stddev_pop stddev_samp std variance var_pop var_samp try_sum try_avg bit_and bit_or bit_xor "
        "corr"
    ),
    "count_if": Function(1),
    "approx_count_distinct": Function(1),
    **dict.fromkeys(("max_by", "min_by", "approx_percentile", "percentile_approx"), Function(2)),
}
WINDOWS = _plain("row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value")
LAMBDAS = dict.fromkeys(("exists", "forall", "filter"), Function(2))
"""Of an array and a condition on each element."""
GENERATORS = dict.fromkeys(("explode", "explode_outer", "posexplode", "posexplode_outer"), Function(1))

FUNCTIONS = {**SCALARS, **AGGREGATES, **WINDOWS, **LAMBDAS, **GENERATORS}
IN_LAMBDA = frozenset({"startswith", "endswith", "isnull", "isnotnull"})
"""An array may have a million elements: what is done to each is small."""
CONDITION_FUNCTIONS = {**SCALARS, **LAMBDAS}
"""Of a condition on one row."""


def _named(package: str, names: str) -> frozenset[str]:
    return frozenset(f"{_ROOT}.{package}.{name}" for name in names.split())


_COMPARISONS = _named(
    "expressions",
    "And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In IsNull IsNotNull",
)

PARSED_PLANS = _named(
    "plans.logical",
    "Project Filter Join Aggregate Sort GlobalLimit LocalLimit LimitAll Offset Distinct SubqueryAlias "
    "OneRowRelation Union Intersect Except Generate WithWindowDefinition UnresolvedWith Pivot",
) | _named("analysis", "UnresolvedRelation UnresolvedHaving UnresolvedSubqueryColumnAliases")
"""As the parser has them."""

PARSED_EXPRESSIONS = (
    _COMPARISONS
    | _named(
        "expressions",
        "TimestampAdd TimestampDiff Alias Literal Add Subtract Multiply Divide IntegralDivide Remainder "
        "UnaryMinus UnaryPositive Cast "
        "CaseWhen Like ILike Concat StringLocate StringTrim StringTrimLeft StringTrimRight Substring "
        "SemiStructuredExtract SortOrder InSubquery ListQuery Exists ScalarSubquery LambdaFunction "
        "UnresolvedNamedLambdaVariable WindowExpression WindowSpecDefinition WindowSpecReference "
        "UnresolvedWindowExpression SpecifiedWindowFrame UnspecifiedFrame$ CurrentRow$ UnboundedPreceding$ "
        "UnboundedFollowing$ CreateNamedStruct",
    )
    | _named(
        "analysis",
        "UnresolvedAttribute UnresolvedAlias UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedFunction "
        "UnresolvedExtractValue UnresolvedGenerator UnresolvedOrdinal MultiAlias",
    )
    | _named("expressions.aggregate", "AggregateExpression First Last AnyValue")
)

PARSED_VALUES = (
    _named(
        "expressions",
        "Ascending$ Descending$ NullsFirst$ NullsLast$ RowFrame$ RangeFrame$ ExprId NumericEvalContext EvalMode$",
    )
    | _named("plans", "Inner$ Cross$ LeftOuter$ RightOuter$ FullOuter$ LeftSemi$ LeftAnti$ NaturalJoin UsingJoin")
    | _named("plans.logical", "JoinHint")
    | _named("expressions.aggregate", "Complete$")
    | _named("", "AliasIdentifier FunctionIdentifier").union(
        {f"{_ROOT}.AliasIdentifier", f"{_ROOT}.FunctionIdentifier"}
    )
    | {"java.util.UUID", "scala.Enumeration$Val", "org.apache.spark.sql.util.CaseInsensitiveStringMap"}
    | {"org.apache.spark.unsafe.types.UTF8String", "java.math.BigDecimal", "org.apache.spark.sql.types.Decimal"}
)
"""What stands in a node beside other nodes, types, and plain values."""

IN_LAMBDA_EXPRESSIONS = (
    _COMPARISONS
    | _named("expressions", "Literal UnresolvedNamedLambdaVariable LambdaFunction")
    | _named("analysis", "UnresolvedAttribute UnresolvedFunction")
)

ANALYZED_PLANS = _named(
    "plans.logical",
    "Project Filter Join Aggregate Sort GlobalLimit LocalLimit LimitAll Offset Distinct SubqueryAlias "
    "OneRowRelation Union Intersect Except Generate Window WithCTE CTERelationDef CTERelationRef",
)
"""As the analyzer leaves them; beside these there are only the views that were made for the statement."""

ANALYZED_EXPRESSIONS = (
    _COMPARISONS
    | _named(
        "expressions",
        "Between Alias AttributeReference OuterReference Literal Add Subtract Multiply Divide IntegralDivide Remainder "
        "UnaryMinus UnaryPositive Cast CaseWhen If Like ILike Concat Contains StartsWith EndsWith StringInstr "
        "BinaryPredicate "
        "StringLocate StringTrim StringTrimLeft StringTrimRight StringTrimBoth Substring Left Right "
        "StringReverse Reverse Upper Lower Ascii Length BitLength OctetLength Base64 Hex Unhex UnBase64 Md5 "
        "Sha1 Sha2 Crc32 Murmur3Hash XxHash64 BitwiseCount TryAdd TrySubtract TryMultiply TryDivide TypeOf "
        "SplitPart GetJsonObject StructsToJson Coalesce Nvl Nvl2 NullIf With CommonExpressionDef "
        "CommonExpressionRef TypedNullLiteral IsNaN NaNvl Greatest Least Abs Signum Floor Ceil Round BRound "
        "Sqrt Cbrt Exp Log Log2 Log10 Logarithm Pow Pmod RoundFloor RoundCeil",
    )
    | _named(
        "expressions",
        "CurrentDate CurDateExpressionBuilder CurrentTimestamp Now LocalTimestamp TruncTimestamp TruncDate Year "
        "Quarter Month DayOfMonth DayOfWeek WeekDay DayOfYear WeekOfYear Hour Minute Second SecondWithFraction "
        "Extract DateAdd DateSub DateDiff AddMonths MonthsBetween LastDay NextDay TimestampAdd TimestampDiff "
        "TimestampAddInterval TimeAdd DateAddInterval DateAddYMInterval TimestampAddYMInterval "
        "SubtractTimestamps SubtractDates DatetimeSub ParseToDate ParseToTimestamp UnixTimestamp "
        "ToUnixTimestamp FromUnixTime UnixSeconds UnixMillis UnixMicros UnixDate SecondsToTimestamp "
        "MillisToTimestamp MicrosToTimestamp DateFromUnixDate DateFormatClass MakeDate MakeTimestamp "
        "FromUTCTimestamp ToUTCTimestamp GetTimestamp PreciseTimestampConversion KnownNullable "
        "TryToTimestampExpression MultiplyYMInterval MultiplyDTInterval DivideYMInterval DivideDTInterval",
    )
    | _named(
        "expressions",
        "Size ArraySize ArrayContains ArrayPosition ArrayMin ArrayMax ElementAt TryElementAt Get MapKeys "
        "MapValues MapContainsKey CreateArray CreateNamedStruct GetArrayItem GetMapValue "
        "GetStructField GetArrayStructFields ArrayExists ArrayForAll ArrayFilter LambdaFunction "
        "NamedLambdaVariable Explode PosExplode GeneratorOuter SortOrder InSubquery ListQuery Exists "
        "ScalarSubquery variant.VariantGet variant.ParseJson TryValidateUTF8 WindowExpression "
        "WindowSpecDefinition SpecifiedWindowFrame CurrentRow$ UnboundedPreceding$ UnboundedFollowing$ "
        "RowNumber Rank DenseRank PercentRank CumeDist NTile Lag Lead NthValue StringSplit RegExpExtract "
        "RegExpReplace",
    )
    | _named(
        "expressions.aggregate",
        "AggregateExpression Count Sum Average Min Max First Last AnyValue BoolAnd BoolOr CountIf "
        "HyperLogLogPlusPlus ApproximatePercentile MaxBy MinBy StddevSamp StddevPop VarianceSamp VariancePop "
        "TrySum TryAverage BitAndAgg BitOrAgg BitXorAgg Corr PivotFirst",
    )
    | _named("analysis", "SQLScalarFunction")
)
"""What functions of the catalog are made of is here too: by the parser's plan nobody else can name it."""
